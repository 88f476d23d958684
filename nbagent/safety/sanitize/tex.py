"""Cleans TeX, wherever a renderer may find mathematics: in Markdown, HTML and LaTeX. Pure."""

from __future__ import annotations

import re

JOINER = "\u2060"
"""A character without width. Between two others, it keeps a renderer from reading them as one token."""

_COMMANDS = re.compile(
    r"\\(?=(?:href|url|html[A-Za-z]*|style|class|cssId|data|require|includegraphics|include|input|import|usepackage|"
    r"bbox|fcolorbox|definecolor|mmlToken|csname|catcode|write|openin|openout|read|special|unicode|let|def|edef|gdef|xdef)(?![A-Za-z]))",
    re.IGNORECASE,
)


def break_commands(text: str) -> str:
    r"""Disable TeX commands that load, link, set CSS or define commands: `\href` is shown as text."""
    return _COMMANDS.sub(rf"\\{JOINER}", text)
