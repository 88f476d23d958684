"""Cleans HTML and SVG so that they load nothing. Pure.

nh3 (html5ever) writes the result. Before that, the markup is read once to bound its depth and how many elements a
parser makes of it (`nesting.py`), and to note what is removed.
"""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Iterator

import nh3

from nbagent.core.markdown import break_commands
from nbagent.safety.sanitize.left_out import IN_LOG, LeftOut, is_data_image
from nbagent.safety.sanitize.nesting import BLOCKS, IMPLIED, SVG, VOID, Nesting
from nbagent.safety.sanitize.styles import clean_declarations, clean_sheet, clean_value

MAX_MARKUP_CHARACTERS = 4 * 1024 * 1024
"""Characters of one piece of markup that are read."""
MAX_DRAWN = 64 * 1024 * 1024
"""Characters that all `<use>` of one piece of markup show again."""

_TEXT = frozenset(
    """a abbr address article aside b bdi bdo big blockquote br caption center cite code col colgroup dd del details
    dfn div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd label li main mark meter
    nav
    ol p pre progress q rp rt ruby s samp section small span strike strong sub summary sup table tbody td tfoot th thead
    time tr tt u ul var wbr""".split()
)
_TAGS = _TEXT | SVG
_NAMES = {name.lower(): name for name in _TAGS}
_GONE = frozenset(
    "script style iframe frame frameset object embed applet noembed noframes noscript template title textarea xmp "
    "portal plaintext".split()
)
"""Elements that are removed with their content, which is no text for a reader."""

_GENERAL = frozenset("class id style title align valign width height bgcolor border dir lang role aria-label".split())
_TABLE = frozenset("colspan rowspan scope span headers cellpadding cellspacing rules frame".split())
_ALONE = {
    "a": frozenset({"href"}),
    "img": frozenset({"src", "alt"}),
    "image": frozenset({"href", "xlink:href"}),
    "use": frozenset({"href", "xlink:href"}),
    "details": frozenset({"open"}),
    "ol": frozenset({"start", "reversed", "type"}),
    "li": frozenset({"value"}),
    "meter": frozenset({"value", "min", "max", "low", "high", "optimum"}),
    "progress": frozenset({"value", "max"}),
    "font": frozenset({"color", "size", "face"}),
}
_DRAWN = {
    name.lower(): name
    for name in """xmlns viewBox preserveAspectRatio version x y x1 y1 x2 y2 dx dy cx cy r rx ry fx fy d points
    transform
    fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-miterlimit
    stroke-dasharray stroke-dashoffset opacity clip-path clip-rule clipPathUnits gradientUnits gradientTransform
    spreadMethod offset stop-color stop-opacity markerWidth markerHeight markerUnits refX refY orient marker-start
    marker-mid marker-end font-family font-size font-weight font-style text-anchor dominant-baseline letter-spacing
    textLength lengthAdjust color visibility display overflow vector-effect shape-rendering""".split()
}
_CSS = frozenset("fill stroke clip-path marker-start marker-mid marker-end color stop-color font-family".split())
_ATTRIBUTES = {
    tag: set(_GENERAL | _TABLE | _ALONE.get(tag, frozenset()) | (set(_DRAWN.values()) if tag in SVG else set()))
    for tag in _TAGS
}
_LOADING = frozenset(
    "src srcset poster background data code archive href xlink:href action formaction ping manifest icon srcdoc".split()
)

_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][\w:-]{0,40})(?P<rest>(?:[\s/](?>(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*))?)>"""
    r"|<!--.*?(?:--!?>|\Z)|<[!?][^<>]*+>",
    re.DOTALL | re.ASCII,
)
_CERTAIN = re.compile(
    r"""(?>(?:[^<]++|</?+[a-zA-Z][\w:-]*+"""
    r"""(?>(?:\s++(?:[^\s"'<>/=]++(?:\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>=`]++))?)?)*)/?+>"""
    r"""|<!--(?!-?>)[^<>]*+(?<=--)>|<!(?i:doctype)[^<>"']*+>)*)""",
    re.ASCII,
)
"""Markup whose tags end where they seem to."""
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>`]+)))?""", re.ASCII)
_ELEMENT = re.compile(r"<(?P<end>/?)(?P<name>[a-zA-Z]++)(?P<rest>[^<>]*+)>")
_NAMED = re.compile(r'\sid="([^"]+)"')
_LONG_REFERENCE = re.compile(r"&#\d{300,};?")
_UNENDED = re.compile(r"&#?\w*+\Z")
"""A reference such as `&#4`, which may have to be ended."""
_STYLE = re.compile(r"<style\b[^<>]*>([^<]*)</style\s*>", re.IGNORECASE)
_LINK = re.compile(r"https?://[^\s<>\"'`\\]+|mailto:[^\s<>\"'`\\]+", re.IGNORECASE)
_FRAGMENT = re.compile(r"#[\w=.:%-]*")
_QUOTED = str.maketrans("<>", "\u2039\u203a")
"""Signs of tags in the values of attributes, and signs that look like them."""
_HIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SVG_START = re.compile(r"\s*<svg\b[^<>]*>")
_SVG_TAG = re.compile(r"<svg\b[^<>]*>|</svg>")
_SIZING = ("width", "height", "viewBox", "preserveAspectRatio", "version")
_ID = re.compile(r"[\w.:-]{1,200}")
"""Ids that stay; not `cell-id=cell-1`, which the links of the answer use."""
_OF_PAGES = re.compile(
    r"(?:jp|lm|jupyterlab|nba|top-panel|menu-panel|main-panel|spacer-widget)\b.*|main|galaxy|moon\d|filebrowser|"
    r"(?:json-)?setting-editor|root__description|vg-tooltip-element"
)
"""Ids of elements of JupyterLab's and Notebook's pages, for which these have style rules: one covers the window."""
_OF_PROGRAMS = re.compile(
    r"(?:jp|lm|p|cm|bp\d?|jupyter|lumino|widget|modal|dialog|navbar|fixed|sticky|fa)\b.*", re.IGNORECASE
)
"""Classes for which programs that show notebooks have style rules: `jp-Dialog` covers the whole window."""


def clean_html(markup: str, rest: str = IN_LOG) -> str:
    """Clean HTML, a fragment or a page: it loads nothing and stays within its own box.

    A note says what was removed; it ends with `rest`, a sentence on where that can be found.
    """
    found = LeftOut(rest)
    body = _clean(markup, found)
    sheet = _sheet(markup, found)
    if sheet or "style=" in body or "class=" in body.replace('class="dataframe"', ""):
        # `contain` keeps it from being drawn over other cells, by fixed positions too. The sheet styles the inner box
        # only.
        style = f"<style>{sheet}</style>\n" if sheet else ""
        body = f'<div style="contain: paint; overflow: auto"><div>\n{style}{body}\n</div></div>'
    if found:
        body += f"\n<p><em>{html.escape(found.sentence())}</em></p>"
    return body


def clean_svg(markup: str, left_out: LeftOut) -> str:
    """Clean an SVG document; returned in the form that it has in HTML, empty if nothing is left of it."""
    body = _clean(markup, left_out).strip()
    start = _SVG_START.match(body)
    if start is None:
        return ""
    inside, after = _split_root(body[start.end() :])
    if after.strip():
        left_out.add("what followed a picture")
    sheet = _sheet(markup, left_out)
    style = f"<style>{sheet}</style>" if sheet else ""
    # The root has the size and clips; everything else is in a group, which the sheet styles.
    given = dict(re.findall(r' ([\w:-]+)="([^"]*)"', start[0]))
    root = {"xmlns": "http://www.w3.org/2000/svg"} | {name: given[name] for name in _SIZING if name in given}
    root["style"] = "contain: paint; overflow: hidden"
    group = {name: value for name, value in given.items() if name not in (*_SIZING, "xmlns", "x", "y", "overflow")}
    written = f"<svg{_attribute_text(root)}><g{_attribute_text(group)}>{style}{inside}</g></svg>"
    # Outside of HTML, &nbsp; isn't defined.
    return written.replace("&nbsp;", "&#160;")


def nested(markup: str) -> tuple[str, bool]:
    """The known elements of markup, each ended inside the one that it is in; and whether a browser sees no others.

    If so, it has the same text in the same elements: there is no tag that a parser could read or place otherwise.
    """
    plain = _HIDDEN.sub("", markup)
    reader = _Reader(left_out := LeftOut())
    written = "".join(reader.read(plain))
    return written, not left_out and reader.is_exact and plain == markup and _CERTAIN.fullmatch(markup) is not None


def parts(markup: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Markup piece by piece: its text, and the name of the element that begins behind it, with its attributes.

    Of one that ends there, the name has a `/` before it. It is for markup that a browser reads as `nested` does.
    """
    at = 0
    written = "".join(_Reader(LeftOut(), keeps_all=True).read(_HIDDEN.sub("", markup)))
    for found in _TAG.finditer(written):
        text, at = written[at : found.start()], found.end()
        if found["name"]:
            yield unescape(text), found["end"] + found["name"].lower(), [*_attributes(found["rest"])]
        else:
            yield unescape(text), "", []
    yield unescape(written[at:]), "", []


def elements(markup: str) -> Iterator[tuple[str, list[tuple[str, str]], str]]:
    """The elements that begin in markup: their names, the names and values of their attributes, their first text."""
    for found in _TAG.finditer(markup):
        if found["name"] and not found["end"]:
            text = markup[found.end() : found.end() + 200].partition("<")[0]
            yield found["name"].lower(), [*_attributes(found["rest"])], " ".join(text.split())


def _attribute_text(attributes: dict[str, str]) -> str:
    return "".join(f' {name}="{value}"' for name, value in attributes.items())


def _split_root(body: str) -> tuple[str, str]:
    """Split behind the start tag of an `<svg>` element: its content, and what follows it."""
    depth = 1
    for found in _SVG_TAG.finditer(body):
        depth += -1 if found[0].startswith("</") else 1
        if not depth:
            return body[: found.start()], body[found.end() :]
    return body, ""


def _clean(markup: str, left_out: LeftOut) -> str:
    if len(markup) > MAX_MARKUP_CHARACTERS:
        left_out.add(f"HTML of {len(markup):,} characters")
        return ""
    _JUDGING.judge = judge = _Judge(left_out)
    written = _CLEANER.clean("".join(_Reader(left_out).read(_HIDDEN.sub("", markup))))
    judge.check()
    if _is_endless(written):
        left_out.add("a drawing that repeats itself")
        written = re.sub(r"</?use\b[^<>]*>", "", written)
    # `<wbr>` could divide a TeX command, which MathJax would join again.
    return break_commands(_show_addresses(written).replace("<wbr>", "\u200b"))


def _is_endless(written: str) -> bool:
    """Whether what `<use>` shows again holds another one, or is too much: browsers would hardly get to its end."""
    opened: list[tuple[str, int]] = []
    sizes: dict[str, int] = {}
    uses: list[str] = []
    holding: set[str] = set()
    for found in _ELEMENT.finditer(written) if "<use" in written else ():
        if found["end"]:
            name, start = opened.pop() if opened else ("", 0)
            sizes.setdefault(name, found.end() - start)
        elif found["name"] not in VOID:
            named = _NAMED.search(found["rest"])
            opened.append((named[1] if named else "", found.start()))
            if found["name"] == "use":
                uses += re.findall(r'href="#([^"]*)"', found["rest"])
                holding.update(name for name, _ in opened)
    return not holding.isdisjoint(uses) or sum(sizes.get(each, 0) for each in uses) > MAX_DRAWN


def _sheet(markup: str, left_out: LeftOut) -> str:
    return clean_sheet("\n".join(_STYLE.findall(markup[:MAX_MARKUP_CHARACTERS])), left_out)


class _Reader:
    """Reads markup once, and passes known tags on to nh3, each element ended inside the one that it is in.

    Args:
        left_out: Gets what is left out.
        keeps_all: Whether attributes that aren't known are kept.

    Attributes:
        is_exact: Whether a parser would place all elements so, as far as is known.
    """

    def __init__(self, left_out: LeftOut, *, keeps_all: bool = False) -> None:
        self._left_out = left_out
        self._keeps_all = keeps_all
        self._nesting = Nesting()
        self.is_exact = True

    def read(self, markup: str) -> Iterator[str]:
        at = 0
        while (found := _TAG.search(markup, at)) is not None:
            end, name, rest = found.group("end", "name", "rest")
            if found.start() > at:
                text = markup[at : found.start()]
                yield text.replace("<", "&lt;")
                if "&" in text and _UNENDED.search(text):
                    yield "<!---->"  # what follows would go on with it if the tag in between is left out
            at = found.end()
            name = (name or "").lower()
            if name in _NAMES:
                yield self._end(name) if end else self._start(name, rest)
            elif name in _GONE and not end:
                self.is_exact = False
                if name != "style":
                    self._tell(name, rest)
                at = _end_of(name, markup, at)
            elif name and not end:
                self._tell(name, rest)
        yield markup[at:].replace("<", "&lt;")

    def _tell(self, name: str, rest: str) -> None:
        if name in ("html", "head", "body"):
            return
        addresses = [value for key, value in _attributes(rest) if key in _LOADING and not is_data_image(value)]
        what = f"{'an' if name[0] in 'aeiou' else 'a'} {name} element"
        if addresses:
            self._left_out.loads(what, addresses[0].split()[0] if addresses[0].split() else "")
        else:
            self._left_out.add(what)

    def _start(self, name: str, rest: str) -> str:
        ended = self._nesting.start(name)
        # Parsers open some elements again behind those that end here.
        if ended is None:
            self.is_exact = False
            return ""
        if len(ended) > 1:
            self.is_exact &= IMPLIED.issuperset(ended)
        if _NAMES[name] in SVG and name != "svg" and not self._nesting.has("svg"):
            self._left_out.add(f"a part of a drawing ({name}) outside of one")  # nh3 would remove its text, too
            return _end_tags(ended)
        closed = rest.endswith("/") and _NAMES[name] in SVG
        if name not in VOID and not closed and not self._nesting.enter(name):
            self._left_out.add("what was nested too deep")
            return _end_tags(ended)
        if not rest:
            return f"{_end_tags(ended)}<{name}>"
        known = _ATTRIBUTES[_NAMES[name]]
        given: dict[str, str] = {}
        for key, value in _attributes(rest):
            spelled = _DRAWN.get(key, key)
            if spelled in known or self._keeps_all:
                given.setdefault(spelled, value)
            elif key in _LOADING and value and not is_data_image(value):
                self._left_out.loads("a picture", value.split()[0] if value.split() else "")
        inside = "".join(f' {key}="{html.escape(value)}"' for key, value in given.items())
        return f"{_end_tags(ended)}<{name}{inside}{' /' if closed else ''}>"

    def _end(self, name: str) -> str:
        ended = self._nesting.end(name)
        # Parsers may make an element of an end tag that ends none, and place what follows otherwise if it ends several.
        if len(ended) != 1:
            is_usual = name in BLOCKS or name in IMPLIED
            self.is_exact &= bool(ended) and is_usual and IMPLIED.issuperset(ended[:-1])
        return _end_tags(ended)


def _end_tags(names: list[str]) -> str:
    return f"</{'></'.join(names)}>" if names else ""


class _Judge:
    """Decides on each attribute that nh3 writes.

    If its filter raises, nh3 keeps the value. So errors are kept, and `check` raises them.
    """

    def __init__(self, left_out: LeftOut) -> None:
        self._left_out = left_out
        self._begun = self._ended = 0
        self._raised: BaseException | None = None

    def attribute(self, tag: str, name: str, value: str) -> str | None:
        """The cleaned value of an attribute; None removes it."""
        self._begun += 1
        try:
            kept = self._value(tag, name, value)
            # nh3 up to 0.3.5 writes these as they are, and what reads the markup afterwards would end the tag at them.
            kept = kept and kept.translate(_QUOTED)
        except BaseException as error:
            self._raised, kept = error, None
        self._ended += 1
        return kept

    def check(self) -> None:
        """Raise the first error of the filter."""
        if self._raised is not None or self._begun != self._ended:
            raise self._raised or RuntimeError("A filter of attributes was interrupted.")

    def _value(self, tag: str, name: str, value: str) -> str | None:
        if name == "style":
            return clean_declarations(value, self._left_out) or None
        if name in ("src", "href"):
            return self._address(tag, value)
        if name == "id":
            return value if _ID.fullmatch(value) and not is_of_page(value) else None
        if name == "class":
            return clean_classes(value) or None
        if name in _CSS:
            return clean_value(name, value, self._left_out) or None
        if name == "xmlns":
            return value if value == "http://www.w3.org/2000/svg" else None
        return value

    def _address(self, tag: str, value: str) -> str | None:
        value = value.strip()
        if tag == "a":
            if _LINK.fullmatch(value) or _FRAGMENT.fullmatch(value):
                return value
            self._left_out.add("the address of a link")
        elif tag in ("img", "image"):
            if is_data_image(value):
                return value
            self._left_out.loads("a picture", value)
        elif tag == "use" and _FRAGMENT.fullmatch(value):
            return value
        return None


_JUDGING = threading.local()
"""The judge of the markup that a thread cleans now."""
_CLEANER = nh3.Cleaner(
    tags=set(_TAGS),
    attributes=_ATTRIBUTES,
    attribute_filter=lambda tag, name, value: _JUDGING.judge.attribute(tag, name, value),
    link_rel="noopener noreferrer nofollow",
    url_schemes={"http", "https", "mailto", "data"},
)
"""Shared, since making it takes twenty times as long as cleaning an output, of which a session has thousands."""


def clean_classes(value: str) -> str:
    """Names of classes without those of programs that show notebooks."""
    return " ".join(each for each in value.split() if not _OF_PROGRAMS.fullmatch(each))


def is_of_page(name: str) -> bool:
    """Whether an id is one for which a page that shows notebooks has style rules."""
    return _OF_PAGES.fullmatch(name) is not None


def _attributes(rest: str) -> Iterator[tuple[str, str]]:
    for found in _ATTRIBUTE.finditer(rest):
        yield found[1].lower(), unescape(found[2] or found[3] or found[4] or "")


def unescape(text: str) -> str:
    """Text with the characters that references such as `&#65;` name; Python alone fails on more than 4,300 digits."""
    return html.unescape(_LONG_REFERENCE.sub("\ufffd", text))


def _end_of(name: str, markup: str, at: int) -> int:
    """Where the content of an element ends that is removed whole."""
    if name in ("frame", "embed"):
        return at
    # Unclosed: all the rest is its content, as in browsers.
    closed = re.compile(rf"</{name}[\s/>]", re.IGNORECASE).search(markup, at)
    return len(markup) if closed is None else (markup.find(">", closed.start()) + 1 or len(markup))


_WRITTEN = re.compile(r'<a href="([^"]*)" rel="[^"]*">|<a\b[^<>]*>|</a>|<img(?![^<>]* src=)[^<>]*>')


def _show_addresses(written: str) -> str:
    """Cleaned markup, with each link's address behind it, and a word in place of each removed picture."""
    parts: list[str] = []
    at = start = 0
    address = ""
    for found in _WRITTEN.finditer(written):
        parts.append(written[at : found.start()])
        at = found.end()
        if found[0].startswith("<img"):
            parts.append("<em>[picture left out]</em>")
            continue
        parts.append(found[0])
        if found[0] == "</a>":
            if address and not address.startswith("#") and written[start : found.start()] != address:
                parts.append(f" <small>[{address if len(address) <= 200 else address[:200] + '…'}]</small>")
            address = ""
        else:
            address = _href(found[0])
            start = at
    return "".join(parts) + written[at:]


def _href(tag: str) -> str:
    found = re.search(r' href="([^"]*)"', tag)
    return found[1] if found else ""
