"""TeX that loads nothing, wherever a renderer may find mathematics: in Markdown, in HTML, in LaTeX. Pure."""

from __future__ import annotations

import re

JOINER = "\u2060"
"""A character without width. Between two others it keeps a renderer from reading them as one sign."""

_COMMANDS = re.compile(
    r"\\(?=(?:href|url|html[A-Za-z]*|style|class|cssId|data|require|includegraphics|include|input|import|usepackage|"
    r"bbox|fcolorbox|definecolor|mmlToken|csname|catcode|write|openin|openout|read|special|unicode|let|def|edef|gdef|xdef)(?![A-Za-z]))",
    re.IGNORECASE,
)


def break_commands(text: str) -> str:
    r"""Text whose TeX commands that load, link, set CSS or make commands are none any more: `\href` shows as it is."""
    return _COMMANDS.sub(rf"\\{JOINER}", text)
