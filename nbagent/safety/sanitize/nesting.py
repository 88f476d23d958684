"""Where the elements of markup end, so that each can be ended inside the one that it is in. Pure.

A parser opens a formatting element (`<b>`, `<font>`) that wasn't ended anew in each block that follows: a hundred of
them in front of a thousand paragraphs are a hundred thousand elements. It does so only for those that end because
something around them ends. So what HTML's rules end without a tag is ended here by one. Where the rules leave a choice,
more ends than a browser would end.

Source: https://html.spec.whatwg.org/multipage/parsing.html, "The stack of open elements" and "in body".
"""

from __future__ import annotations

MAX_DEPTH = 200
"""Elements within elements: a parser's time grows with the square of it."""
VOID = frozenset({"br", "col", "hr", "img", "wbr"})
SVG = frozenset(
    """svg g defs symbol use path rect circle ellipse line polyline polygon text tspan image clipPath linearGradient
    radialGradient stop marker""".split()
)
IMPLIED = frozenset("p li dd dt td th tr tbody thead tfoot colgroup caption rp rt".split())
"""Elements that needn't have an end tag."""

_IN_SVG = frozenset(name.lower() for name in SVG) | {"a"}
_HEADINGS = frozenset("h1 h2 h3 h4 h5 h6".split())
BLOCKS = _HEADINGS | frozenset(
    """address article aside blockquote center dd details div dl dt figcaption figure footer header hr li main nav ol p
    pre section summary table ul""".split()
)
"""Elements that end a paragraph."""
_SECTIONS = frozenset({"tbody", "thead", "tfoot"})
_ROWS = _SECTIONS | {"table", "tr", "colgroup"}
_CELLS = frozenset({"td", "th", "caption"})
_SCOPES = _CELLS | {"table"}
"""Elements that nothing inside them ends, but parts of their table."""
_PARENTS = {
    **dict.fromkeys(("td", "th"), _SECTIONS | {"table", "tr"}),
    "tr": _SECTIONS | {"table"},
    **dict.fromkeys((*_SECTIONS, "caption", "colgroup"), frozenset({"table"})),
    "col": frozenset({"table", "colgroup"}),
}
"""The parts of a table, and in what each can be."""
_ITEMS = _SCOPES | BLOCKS - {"address", "div", "p"}
_ALIKE = {
    "li": (frozenset({"li"}), _ITEMS - {"li"}),
    **dict.fromkeys(("dd", "dt"), (frozenset({"dd", "dt"}), _ITEMS - {"dd", "dt"})),
    **dict.fromkeys(("rp", "rt"), (frozenset({"rp", "rt"}), _SCOPES | {"ruby"})),
    "a": (frozenset({"a"}), _SCOPES),
}
"""Elements that end others like them, and in what those stay open."""


class Nesting:
    """The elements that are open at a place in markup. Names are in lower case."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def start(self, name: str) -> list[str] | None:
        """The elements that end where an element begins, the innermost first; None where it has no place."""
        ended: list[str] = []
        if name not in _IN_SVG and "svg" in self._open:
            ended += self._close(self._open.index("svg"))
        if name in _PARENTS:
            at = self._find({"table"}, frozenset())
            if at is None:
                return None
            while self._open[at + 1 :] and self._open[-1] not in _PARENTS[name]:
                ended.append(self._open.pop())
            return ended
        if name == "table":
            ended += self._close(self._find({"table"}, _CELLS))
        if self._open and self._open[-1] in _ROWS:
            # Parsers move it out of the table, and look through all that they moved before.
            return None
        if name in BLOCKS:
            ended += self._close(self._find({"p"}, _SCOPES))
        if name in _HEADINGS and self._open and self._open[-1] in _HEADINGS:
            ended.append(self._open.pop())
        if name in _ALIKE:
            ended += self._close(self._find(*_ALIKE[name]))
        return ended

    def enter(self, name: str) -> bool:
        """Have an element open; False where that would be too deep."""
        if len(self._open) >= MAX_DEPTH:
            return False
        self._open.append(name)
        return True

    def has(self, name: str) -> bool:
        """Whether an element of that name is open."""
        return name in self._open

    def end(self, name: str) -> list[str]:
        """The elements that an end tag ends, the innermost first: none if no such element is open there."""
        if self._open and self._open[-1] == name:
            return [self._open.pop()]
        scopes = frozenset({"table"}) if name in _PARENTS else frozenset() if name == "table" else _SCOPES
        return self._close(self._find({name}, scopes))

    def _find(self, names: set[str] | frozenset[str], scopes: frozenset[str]) -> int | None:
        """The place of the innermost open element of some names, if it isn't outside of an element of `scopes`."""
        for at in range(len(self._open) - 1, -1, -1):
            if self._open[at] in names:
                return at
            if self._open[at] in scopes:
                return None
        return None

    def _close(self, at: int | None) -> list[str]:
        if at is None:
            return []
        ended = self._open[at:][::-1]
        del self._open[at:]
        return ended
