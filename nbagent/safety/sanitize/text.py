"""Markdown and LaTeX of which no renderer can make more than text, formatting and links. Pure.

No parser is asked what is a picture and what is HTML, since each renderer has its own. The signs that begin one,
`![` and `<` before a letter, stand nowhere in what is written, whatever is around them. Only how they are taken apart
depends on what is around them: in what looks like code by a character without width, so that it looks the same.
"""

from __future__ import annotations

import re

from nbagent.safety.sanitize.tex import JOINER, break_commands

LINKS = 20
"""Addresses of links that are told below a text."""
ADDRESS = 200
"""Characters of each."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CODE = re.compile(r"(^[ \t>]*(?:```|~~~).*?^[ \t>]*(?:```|~~~)[^\n]*$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_MATH = re.compile(r"(\$\$[^$]+\$\$|\$[^$\n]+\$)")
_DATA = re.compile(r"!\[[^\[\]\n]{0,500}\]\((data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+)\)")
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])")
_AUTOLINK = re.compile(r"<(https?://[^\s<>`]+)>")
_INFO = re.compile(r"([`~]{3,}[^\w\n`~{.]*)(?=([\w{.][^\s`~]*))")
"""Between a fence and its language renderers pass over more than blanks: U+00A0, U+FEFF, U+2028."""
_ENTITY = re.compile(r"&(?=#|(?!(?:amp|lt|gt|quot|apos|nbsp|ndash|mdash|hellip|times|middot|deg|copy);)[A-Za-z]\w*;)")
"""What stands for another character, of which a sign of Markdown's or TeX's could be made after all was looked at."""
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
    """Markdown that loads nothing and holds no HTML; where its links lead stands below it."""
    text = _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    parts = _CODE.split(text)
    for index, part in enumerate(parts):
        parts[index] = _code(part) if index % 2 else _prose(part)
    written = break_commands(_INFO.sub(_fence, _ENTITY.sub(f"&{JOINER}", "".join(parts))))
    # A heading could have the address of a cell in nbconvert's page.
    written = re.sub("(?<!#)cell-id=", f"cell-id{JOINER}=", written)
    # Where two parts meet, as everywhere else: this is what holds, whatever was taken for code.
    written = _MARKUP.sub(f"<{JOINER}", written)
    written = re.sub(r"!\[(?!\]\(data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+\))", f"!{JOINER}[", written)
    return written + _where(parts)


def clean_latex(text: str) -> str:
    """LaTeX that loads nothing and holds no HTML."""
    return break_commands(_CONTROLS.sub("", text).replace("<", r"\lt "))


def _code(part: str) -> str:
    return _MARKUP.sub(f"<{JOINER}", part).replace("![", f"!{JOINER}[")


def _prose(part: str) -> str:
    part = _AUTOLINK.sub(r" \1 ", part)
    pieces = _DATA.split(part)
    for index in range(0, len(pieces), 2):  # the odd ones are pictures that are here
        mixed = _MATH.split(pieces[index])
        for at, piece in enumerate(mixed):
            mixed[at] = _MARKUP.sub("< " if at % 2 else "&lt;", piece)
        piece = "".join(mixed).replace("![", "*picture left out:* [")
        piece = _DIRECTIVE.sub(lambda sign: f"{sign[0][0]}{JOINER}{sign[0][1:]}", piece)
        pieces[index] = _TARGET.sub(f"]{JOINER}", piece)
    for index in range(1, len(pieces), 2):
        # Without a name: `![name]` could be another picture, by a definition elsewhere.
        pieces[index] = f"![]({pieces[index]})"
    return "".join(pieces)


def _fence(found: re.Match[str]) -> str:
    """What a block of code is called: a known language, so that no extension draws it."""
    return found[1] if found[2].lower() in _LANGUAGES else f"{found[1]}{JOINER}"


def _where(parts: list[str]) -> str:
    """Where the links lead, for those that don't say it themselves."""
    found: dict[str, None] = {}
    for part in parts[::2]:
        for link in _LINK.finditer(part):
            address = (link[2] or link[3]).removeprefix("mailto:")
            if link[1] != address:
                found[address] = None
    if not found:
        return ""
    named = [f"`{address[:ADDRESS]}{'…' if len(address) > ADDRESS else ''}`" for address in found]
    more = f" and {len(named) - LINKS:,} more" if len(named) > LINKS else ""
    return f"\n\n*Links here lead to* {', '.join(named[:LINKS])}{more}"
