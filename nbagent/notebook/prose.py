"""What a notebook says in words around its cells: its title, questions and answers, and what its figures show. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

from nbagent.core.events import Asked, Claim
from nbagent.core.text import one_line
from nbagent.notebook.lock import Data, nodes
from nbagent.safety.sanitize import clean_markdown

TITLE = 100
"""Characters of a title."""
LEAST = 30
"""Characters of a title that was cut."""
ALT = 300
"""Characters of what is said of a figure."""
_SENTENCE = re.compile(r"(.+?[.?!…])\s")
_CLAUSE = re.compile(r"[,;:–—](?=\s)")
_REST = re.compile(r"(?:[?!…]|.[.:;])\s+(\S.*)", re.DOTALL)
"""The last character of a sentence that is a heading, and what follows on it."""
_KINDS = {
    "scatter": "scatter plot",
    "hist": "histogram",
    "bar": "bar chart",
    "barh": "bar chart",
    "boxplot": "box plot",
    "violinplot": "violin plot",
    "pie": "pie chart",
    "imshow": "image",
    "heatmap": "heat map",
    "contour": "contour plot",
    "contourf": "contour plot",
    "errorbar": "points with error bars",
    "plot": "line plot",
}
"""What functions of plotting libraries draw; the first that code calls says what a figure is."""
_WORDS = {
    "title": "title",
    "suptitle": "title",
    "set_title": "title",
    "xlabel": "x axis",
    "set_xlabel": "x axis",
    "ylabel": "y axis",
    "set_ylabel": "y axis",
}
"""Functions and keywords that give a figure words, and what these are."""


def title_of(text: str) -> str:
    """A title for a question: all of it if it is short, else its first sentence, or as many clauses as fit."""
    line = one_line(text.strip(), len(text))
    if len(line) > TITLE and (found := _SENTENCE.match(line)):
        line = found[1]
    if len(line) > TITLE:
        ends = [found.start() for found in _CLAUSE.finditer(line[:TITLE]) if found.start() >= LEAST]
        line = line[: ends[-1]] if ends else f"{line[:TITLE].rpartition(' ')[0] or line[:TITLE]} …"
    return line.rstrip(" .,;:")


def heading(asked: Asked, *, level: str) -> str:
    """A question as a heading, with the rest below, or all of its text if it doesn't go on behind the heading.

    Args:
        asked: The question.
        level: `#` for the title of a notebook, `##` for a further question.
    """
    text, line = asked.question.strip(), title_of(asked.question)
    told = " ".join(clean_markdown(line).split()).lstrip("# ")
    if told and told == line and clean_markdown(text) == text:
        if line == text.rstrip(" ."):
            return f"{level} {told}"
        if found := _REST.fullmatch(text, max(0, len(line) - 1)) if text.startswith(line) else None:
            return f"{level} {told}\n\n{found[1][0].upper()}{found[1][1:]}"
    return f"{level} {told or 'A question'}\n\n{clean_markdown(text)}"


def data(given: Sequence[Data]) -> str:
    """What a notebook says of its data."""
    lines = []
    for each in given:
        digest = f", SHA-256 `{each.sha256[:12]}…`" if each.sha256 else ""
        changed = f". *{clean_markdown(each.changed)}*" if each.changed else ""
        # Whoever made the data chose its name.
        name = clean_markdown(f"`{one_line(each.path.replace('`', ''))}`")
        lines.append(f"{name} ({each.size:,} bytes{digest}){changed}")
    return f"Data: {lines[0]}" if len(lines) == 1 else "\n".join(["Data:", "", *(f"- {each}" for each in lines)])


def sources(claims: Sequence[Claim]) -> str:
    """Markdown that names the numbers of an answer by the cells that show them."""
    told, found = "", dict[int, list[str]]()
    for claim in claims:
        if claim.cell:
            shown = f" (as {clean_markdown(claim.shown)})" if claim.shown != claim.text else ""
            found.setdefault(claim.cell, []).append(f"{clean_markdown(claim.text)}{shown}")
    # JupyterLab follows such a link to the cell with this id.
    lines = [
        f"- [cell {cell}](#cell-id=cell-{cell}): {', '.join(dict.fromkeys(texts))}"
        for cell, texts in sorted(found.items())
    ]
    if lines:
        told += "\n\n<details><summary>Where the numbers stand</summary>\n\n" + "\n".join(lines) + "\n\n</details>"
    return told


def alt(code: str, remark: str, *, number: int) -> str:
    """What can be said of a cell's figure without seeing it: the words that code gives it, else what was said."""
    kind, words = "", dict[str, list[str]]()
    for node in nodes(code):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        kind = kind or _KINDS.get(name, "")
        given = [(_WORDS.get(name, ""), node.args[0])] if node.args else []
        given += [(_WORDS.get(each.arg or "", ""), each.value) for each in node.keywords if name != "legend"]
        for what, value in given:
            if what and isinstance(value, ast.Constant) and isinstance(value.value, str):
                words.setdefault(what, []).append(value.value)
    titles = words.pop("title", [])
    parts = [kind or "figure", *([f"“{'”, “'.join(titles)}”"] if titles else [])]
    parts += [f"{what}: {', '.join(dict.fromkeys(found))}" for what, found in sorted(words.items())]
    told = "; ".join(parts) if titles or words else f"{parts[0]} of cell {number}" + (f": {remark}" if remark else "")
    told = re.sub(r"[<>\[\]`*_$\\]+", "", one_line(told, ALT))
    return told[:1].upper() + told[1:]


class ToolSource(NamedTuple):
    """The source of a tool that a cell defines, and what the cell says of it."""

    title: str
    source: str


def tool(code: str) -> ToolSource | None:
    """The tool that a cell defines as a module, as the agent's `tool_cells.define` writes it; None for other cells."""
    first = code.partition("\n")[0]
    if not first.startswith("# The tool "):
        return None
    for node in nodes(code):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "compile" and node.args:
            source = node.args[0]
            if isinstance(source, ast.Constant) and isinstance(source.value, str):
                return ToolSource(first.removeprefix("# "), source.value)
    return None
