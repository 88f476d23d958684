"""The terminal's colours and lines, and what is printed when a session's own are over: an answer, or an error."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final, cast

from nbagent.core.errors import NbagentError
from nbagent.core.events import Answer
from nbagent.core.markdown import is_quick
from nbagent.core.text import safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.syntax import SyntaxTheme
    from rich.text import Text

OTHER_LOOKS: Final = {
    "bold": ("code", "h7", "item.bullet", "item.number", "kbd", "table.header"),
    "underline": ("link", "link_url"),
    "italic": ("block_quote",),
    "none": ("code_block", "hr", "list", "table.border"),
}
"""What rich shows of Markdown in other colours, and how it looks here."""
_NUMBER: Final = re.compile(r"(?:-+>)? *\d+ ")
"""Of a line of code in a traceback, with the arrow before it."""


def code_theme() -> SyntaxTheme:
    """Python in colours that can be read on white and on black."""
    from pygments.token import Comment, Keyword, Name, Operator, String, Token
    from rich.style import Style as Look
    from rich.syntax import ANSISyntaxTheme

    looks = {Keyword: "bold", Operator.Word: "bold", String: "magenta", Comment: "dim italic"}
    looks |= {Name.Function: "bold", Name.Class: "bold", Name.Decorator: "magenta"}
    return ANSISyntaxTheme({Token: Look(), **{kind: Look.parse(look) for kind, look in looks.items()}})


def open_console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """A console of rich's whose colours can be read on white and on black."""
    from rich.console import Console
    from rich.theme import Theme

    looks = {f"markdown.{name}": look for look, names in OTHER_LOOKS.items() for name in names}
    theme = Theme(looks | {"progress.elapsed": "none", "progress.spinner": "none"})
    return Console(highlight=False, emoji=False, theme=theme, stderr=stderr, soft_wrap=soft_wrap)


def with_hanging_indent(line: Text, console: Console) -> Text:
    """A line of a traceback, wrapped so that its code stays to the right of its number."""
    from rich.text import Text

    number = _NUMBER.match(line.plain)
    if number is None or line.cell_len <= console.width or number.end() > console.width // 2:
        return line
    head, code = line.divide([number.end()])
    rest = Text("\n" + " " * number.end()).join(code.wrap(console, console.width - number.end()))
    return head + rest


def show_answer(answer: Answer) -> None:
    """Print an answer: formatted below an empty line, if on a terminal. Remarks follow it on standard error."""
    if sys.stdout.isatty() and is_quick(answer.text):
        from rich.markdown import Markdown

        console = open_console()
        console.print()
        console.print(Markdown(safe(answer.text), hyperlinks=False, code_theme=cast("str", code_theme())))
    else:
        print(safe(answer.text), flush=True)
    for each in answer.remarks:
        print(safe(each), file=sys.stderr, flush=True)


def complain(error: NbagentError) -> None:
    """An error as a person reads it: what happened, and the mend."""
    console = open_console(stderr=True)
    # By words on a terminal, as all that is told there.
    console.print(safe(error.message), style="red", markup=False, soft_wrap=not console.is_terminal)
    if error.mend:
        console.print(safe(error.mend), markup=False, soft_wrap=not console.is_terminal)
