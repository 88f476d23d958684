"""Cleans Markdown and TeX of others, so that every renderer makes only text, formatting and links of it. Pure.

Renderers differ in what they take for a picture or HTML, so no parser decides it. The tokens that begin one, `![` and
`<` before a letter, occur nowhere in the result. They are escaped, or, in what looks like code, divided by a character
without width, so that the code looks the same. One element is made: `DOLLAR`.
"""

from __future__ import annotations

import re

JOINER = "\u2060"
"""A character without width. Between two others, it keeps a renderer from reading them as one token."""
DOLLAR = r"<span>\$</span>"
"""A dollar that begins no formula in any renderer: none goes on over the end of an element."""
MAX_LINKS = 20
"""Links whose addresses are listed below a text."""
MAX_ADDRESS_CHARACTERS = 200
"""Characters of each address."""

MAX_FORMATTED = 20_000
"""Characters of Markdown, or of code, that are formatted while others wait: more can take seconds."""
MAX_CELLS = 5_000
"""Cells of the tables in such Markdown."""

_COMMANDS = re.compile(
    # Whatever a package calls the command that reads a file, such as `\BVerbatimInput`. `\begin{input}` runs `\input`,
    # and so does a name that TeX puts together: `\begin{in\empty put}`.
    r"\\(?=(?:begin\s{0,9}\{\s{0,9})?(?:[A-Za-z]{0,40}(?:input|include)[A-Za-z]{0,40}|href|url|html[A-Za-z]*|"
    r"(?:pdf)?(?:filedump|mdfivesum)|XeTeX[A-Za-z]{0,9}file|IfFileExists|subfile|(?:adjust|hyper|pgf|pgfdeclare)image|"
    r"style|class|cssId|data|require|import|usepackage|bbox|fcolorbox|definecolor|mmlToken|csname|UseName|ExpandArgs|"
    r"scantokens|catcode|write|openin|openout|read|newread|immediate|makeatletter|ExplSyntaxOn|directlua|latelua|special|"
    r"unicode|let|def|edef|gdef|xdef)(?![A-Za-z])|"
    r"begin(?![A-Za-z]|\s{0,9}\{\s{0,9}[A-Za-z]{1,40}\*?\s{0,9}\}))|"
    # TeX reads `^^5c` as a backslash, and `^^69` as an i.
    r"\^(?=\^)",
    re.IGNORECASE,
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CODE = re.compile(r"(^[ \t>]*(?:```|~~~).*?^[ \t>]*(?:```|~~~)[^\n]*$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_MATH = re.compile(r"(\$\$[^$]+\$\$|\$[^$\n]+\$)")
_INSIDE = r"(?:\\[^($[]|(?!\n[ \t]*\n)[^\\$]){1,2000}?"
_DOLLARS = re.compile(
    # As Pandoc has it: no blank stands behind the first dollar or before the second one, and no digit behind that.
    rf"https?://[^\s<>]+|\$\${_INSIDE}\$\$|\$(?![\s$]){_INSIDE}(?<!\s)\$(?!\d)|"
    rf"\\\((?P<inline>{_INSIDE})\\\)|^[ \t]*\\\[(?P<display>{_INSIDE})\\\][ \t]*$|\\\\|\\?\$",
    re.MULTILINE,
)
_DATA = re.compile(r"!\[[^\[\]\n]{0,500}\]\((data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+)\)")
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])")
_AUTOLINK = re.compile(r"<(https?://[^\s<>`]+)>")
_INFO = re.compile(r"(?<![`~])([`~]{3,}+[^\w\n`~{.]*+)(?=([\w{.][^\s`~]*+))")
"""A fence and its language, between which renderers skip more than blanks: U+00A0, U+FEFF, U+2028. Nothing is read
twice: from each place within a fence that leads nowhere, a million of its characters would take hours."""
_ENTITY = re.compile(r"&(?=#|(?!(?:amp|lt|gt|quot|apos|nbsp|ndash|mdash|hellip|times|middot|deg|copy);)[A-Za-z]\w*;)")
"""Entities, which could become tokens of Markdown or TeX after cleaning."""
_LANGUAGES = frozenset(
    """python py python3 ipython pycon sql bash sh shell console json jsonl yaml toml ini text txt plain csv html css
    javascript js typescript ts r diff markdown md xml c cpp rust go java julia latex tex stata matlab none""".split()
)
_DIRECTIVE = re.compile(r":::|\{(?=[\w:.-]+\}`)")
_TARGET = re.compile(r"\](?=\(|:)(?![(:]\s*<?(?:https?://|mailto:|#))")
_LINK = re.compile(
    r"\[([^\[\]]{0,500})\][(:]\s*<?((?:https?://|mailto:)[^\s<>()`\\]+)|\][(:]\s*<?(https?://[^\s<>()`\\]+)"
)


def clean_markdown(text: str) -> str:
    """Clean Markdown: it loads nothing and has no HTML. The addresses of its links are listed below it."""
    text = _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).replace(DOLLAR, r"\$")
    parts = _CODE.split(text)
    for index, part in enumerate(parts):
        is_code = index % 2
        parts[index] = _MARKUP.sub(f"<{JOINER}", part).replace("![", f"!{JOINER}[") if is_code else _prose(part)
    written = break_commands(_INFO.sub(_fence, _ENTITY.sub(f"&{JOINER}", "".join(parts))))
    # In nbconvert's page, a heading could get the id of a cell.
    written = re.sub("(?<!#)cell-id=", f"cell-id{JOINER}=", written)
    # Once more for the whole text, also where two parts meet: the guarantee doesn't depend on what was taken for code.
    written = _MARKUP.sub(f"<{JOINER}", written)
    written = re.sub(r"!\[(?!\]\(data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+\))", f"!{JOINER}[", written)
    return _with_formulas(written) + _addresses(parts)


def is_quick(text: str) -> bool:
    """Whether Markdown is formatted within a moment. The rows of a table are filled up to the width of its head."""
    widths = [count for line in text.split("\n") if (count := line.count("|"))]
    return len(text) <= MAX_FORMATTED and len(widths) * max(widths, default=0) <= MAX_CELLS


def clean_latex(text: str) -> str:
    """Clean LaTeX: it loads nothing and has no HTML."""
    return break_commands(_CONTROLS.sub("", text).replace("<", r"\lt "))


def break_commands(text: str) -> str:
    r"""Disable TeX commands that load, link, set CSS or define commands: `\href` is shown as text.

    A renderer may find mathematics in Markdown, HTML and LaTeX.
    """
    return _COMMANDS.sub(rf"\g<0>{JOINER}", text)


def _prose(part: str) -> str:
    part = _AUTOLINK.sub(r" \1 ", part)
    pieces = _DATA.split(part)
    for index in range(0, len(pieces), 2):  # odd pieces are pictures with `data:` URLs
        mixed = _MATH.split(pieces[index])
        for at, piece in enumerate(mixed):
            mixed[at] = _MARKUP.sub("< " if at % 2 else "&lt;", piece)
        piece = "".join(mixed).replace("![", "*picture left out:* [")
        piece = _DIRECTIVE.sub(lambda sign: f"{sign[0][0]}{JOINER}{sign[0][1:]}", piece)
        pieces[index] = _TARGET.sub(f"]{JOINER}", piece)
    for index in range(1, len(pieces), 2):
        # Without an alternative text: `![name]` could be another picture, by a definition elsewhere.
        pieces[index] = f"![]({pieces[index]})"
    return "".join(pieces)


def _with_formulas(text: str) -> str:
    r"""The text with formulas as Jupyter knows them, `\(x\)` as `$x$`, and other dollars apart.

    A single dollar stays: Jupyter takes two prices for a formula.
    """
    if not text.count("$") > 1 and "\\(" not in text and "\\[" not in text:
        return text
    parts = _CODE.split(text)
    parts[::2] = [_DOLLARS.sub(_formula_or_price, part) for part in parts[::2]]
    return "".join(parts)


def _formula_or_price(found: re.Match[str]) -> str:
    if inline := (found["inline"] or "").strip():
        return f"${inline}$"
    if found["display"]:
        return f"$${found['display']}$$"
    return DOLLAR if found[0] in ("$", r"\$") else found[0]


def _fence(found: re.Match[str]) -> str:
    """A fence with a known language or none, so that no extension draws the block."""
    return found[1] if found[2].lower() in _LANGUAGES else f"{found[1]}{JOINER}"


def _addresses(parts: list[str]) -> str:
    """The list of links' addresses, without those that the text shows already."""
    found: dict[str, None] = {}
    for part in parts[::2]:
        for link in _LINK.finditer(part):
            address = (link[2] or link[3]).removeprefix("mailto:")
            if link[1] != address:
                found[address] = None
    if not found:
        return ""
    named = [
        f"`{address[:MAX_ADDRESS_CHARACTERS]}{'…' if len(address) > MAX_ADDRESS_CHARACTERS else ''}`"
        for address in found
    ]
    more = f" and {len(named) - MAX_LINKS:,} more" if len(named) > MAX_LINKS else ""
    return f"\n\n*Links here lead to* {', '.join(named[:MAX_LINKS])}{more}"
