"""A block as text, Markdown and HTML. Pure.

The HTML has its looks in attributes and takes text colour and background from where it stands, so that it is right in
dark and light themes and survives the cleaning that front ends do to notebooks they don't trust.
"""

from __future__ import annotations

import functools
import html as markup
import re
from typing import Any, Final

from nbagent.core.events import Answered, Output, text_of
from nbagent.core.markdown import MAX_FORMATTED, break_commands, is_quick
from nbagent.core.text import cut, ends, fenced, plain, safe, visible_lines
from nbagent.faces.magic.block import Block, Note, Shown
from nbagent.safety.questions import Question
from nbagent.safety.sanitize import clean_html, clean_output

MAX_TEXT: Final = 20_000
"""Characters of one output that a block keeps: its beginning and its end. The session's notebook has all."""
MAX_HTML: Final = 200_000
"""Characters of one table that a block keeps; a longer one is shown as text."""
MAX_LIVE_LINES: Final = 15
"""Lines of a stream that are shown while its cell runs: the last ones, which must not lie below others."""
MAX_PLAIN: Final = 2_000
"""Characters of one output in the text and Markdown forms."""
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_COLOURS: Final = {"good": "#2e8b57", "warning": "#b8860b", "bad": "#d9534f", "file": "#1f7fd1"}
_TOKENS: Final = {
    "Token.Keyword": "#9a5cd6",
    "Token.Literal.String": "#2e8b57",
    "Token.Literal.Number": "#c2691c",
    "Token.Comment": "#808080",
    "Token.Name.Function": "#1f7fd1",
    "Token.Name.Class": "#1f7fd1",
    "Token.Name.Builtin": "#1f7fd1",
    "Token.Operator.Word": "#9a5cd6",
}
"""Colours of code that can be read on white and on black."""
_BOX: Final = "border:1px solid rgba(128,128,128,0.35);border-radius:4px;padding:8px 12px;margin:4px 0"
_PRE: Final = (
    "margin:4px 0;padding:6px 8px;white-space:pre-wrap;overflow-wrap:anywhere;background:rgba(128,128,128,0.09);"
    "border-radius:3px;font-family:monospace;font-size:0.9em;line-height:1.35;color:inherit;text-align:left"
)
_SIGNS: Final = {"running": "…", "ok": "✓", "left": "–"}


def bundle(block: Block, *, prefix: str) -> dict[str, str]:
    """The block in all its forms, by MIME type; the ids of its cells, to which the answer links, begin so."""
    return {"text/plain": text(block), "text/markdown": markdown(block), "text/html": html(block, prefix=prefix)}


# -- text and Markdown ----------------------------------------------------------------------------------------------


def text(block: Block) -> str:
    """The block as text, for terminals and for who reads the notebook's file."""
    parts = [_head(block)]
    for part in block.parts:
        if isinstance(part, Note):
            parts.append(f"  {part.text}")
        else:
            parts.append(f"── cell {part.number} {_how(part)}\n{part.code.rstrip()}")
            if said := _said(part.outputs):
                parts.append(said)
    if block.words:
        parts.append(f"  {block.words}")
    if block.answer:
        parts.append(f"\n{safe(block.answer.text)}")
        parts += [f"  {safe(each)}" for each in _sources(block.answer)]
    return safe("\n".join(parts))


def markdown(block: Block) -> str:
    """The block as Markdown, without its pictures."""
    from nbagent.safety.sanitize import clean_markdown

    parts = []
    for part in block.parts:
        if isinstance(part, Note):
            parts.append(f"*{clean_markdown(part.text)}*")
            continue
        parts.append(f"**Cell {part.number}** {_how(part)}\n\n{fenced(part.code.rstrip(), 'python')}")
        if said := _said(part.outputs):
            parts.append(fenced(said.rstrip(), "text"))
    if block.answer:
        parts.append(clean_markdown(block.answer.text))
        if sources := _sources(block.answer):
            parts.append(clean_markdown(" ".join(sources)))
    return "\n\n".join([f"*{clean_markdown(_head(block))}*", *parts])


def _head(block: Block) -> str:
    state = block.state or block.ended or ("answered" if block.answer and block.answer.success else "ended")
    return " · ".join(filter(None, ["nbagent", safe(block.title), state, f"{block.seconds:.0f} s"]))


def _how(cell: Shown) -> str:
    sign = _SIGNS.get(cell.status, "✗")
    return f"{sign} {cell.seconds:.1f} s" if cell.seconds else sign


def _said(outputs: list[Output]) -> str:
    errors = [f"{each['ename']}: {each['evalue']}" for each in outputs if each["output_type"] == "error"]
    pictures = [
        "[picture]"
        for each in outputs
        if any(mime.startswith("image/") for mime in each.get("data", {})) and "text/plain" not in each["data"]
    ]
    said = "\n".join(filter(None, [plain(text_of(outputs)), *pictures, *map(plain, errors)]))
    return ends(said, head=MAX_PLAIN // 2, tail=MAX_PLAIN // 2) if len(said) > MAX_PLAIN else said


def _sources(answer: Answered) -> list[str]:
    """What is told of an answer, and where its numbers stand, in sentences."""
    cells = sorted({claim.cell for claim in answer.claims if claim.cell})
    told = ["Its numbers stand in " + ", ".join(f"cell {each}" for each in cells) + "."] if cells else []
    return answer.remarks + told


# -- HTML -----------------------------------------------------------------------------------------------------------


def html(block: Block, *, prefix: str = "nbagent") -> str:
    """The block as HTML; see `bundle`."""
    parts = [f'<div style="opacity:0.75;font-size:0.9em">{_prose(_head(block))}</div>']
    for part in block.parts:
        parts.append(_note(part) if isinstance(part, Note) else _cell(part, prefix, is_last=part is block.parts[-1]))
    if block.words:
        parts.append(_note(Note("said", safe(block.words))))
    if block.answer:
        parts.append(f'<div style="margin-top:8px">{answer_html(block.answer.text)}</div>')
        parts.append(_sources_html(block.answer, prefix))
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def answer_html(said: str) -> str:
    """Markdown of a model's as HTML that loads nothing and runs nothing."""
    if not is_quick(said):
        return f'<div style="white-space:pre-wrap">{_prose(safe(said))}</div>'
    from markdown_it import MarkdownIt

    return clean_html(MarkdownIt("commonmark", {"html": False}).enable("table").render(safe(said)))


def _note(note: Note) -> str:
    colour = f"color:{_COLOURS[note.style]}" if note.style in _COLOURS else "opacity:0.8"
    style = ";font-style:italic" if note.style == "said" else ""
    return f'<div style="{colour}{style};white-space:pre-wrap">{_prose(note.text)}</div>'


def _cell(cell: Shown, prefix: str, *, is_last: bool) -> str:
    failed = cell.status not in ("ok", "running", "left")
    lines = [line.strip() for line in cell.code.splitlines() if line.strip()]
    first = next((line for line in lines if not line.startswith(("import ", "from "))), "".join(lines[:1]))
    opened = " open" if cell.status == "running" or (failed and is_last) else ""
    colour = f"color:{_COLOURS['bad']}" if failed else "opacity:0.85"
    summary = (
        f'<summary style="cursor:pointer;{colour}"><b>cell {cell.number}</b> {_escaped(_how(cell))} '
        f'<code style="background:none;color:inherit">{_escaped(cut(first, 70))}</code></summary>'
    )
    outputs = "".join(_output(output, is_live=cell.status == "running") for output in cell.outputs)
    return (
        f'<div id="{_escaped(prefix)}-cell-{cell.number}" style="margin:6px 0">'
        f"<details{opened}>{summary}{code_html(cell.code)}</details>{outputs}</div>"
    )


def code_html(code: str) -> str:
    """Python code, highlighted."""
    return f'<pre style="{_PRE}">{_highlighted(safe(code).rstrip())}</pre>'


@functools.lru_cache(maxsize=256)
def _highlighted(code: str) -> str:
    try:
        from pygments.lexers.python import PythonLexer
    except ImportError:  # which comes with IPython, and not with every kernel
        return _escaped(code)
    if len(code) > MAX_FORMATTED:
        return _escaped(code)
    parts = []
    for kind, value in PythonLexer(stripnl=False).get_tokens(code):
        name = str(kind)
        colour = next((_TOKENS[each] for each in _TOKENS if name.startswith(each)), "")
        parts.append(f'<span style="color:{colour}">{_escaped(value)}</span>' if colour else _escaped(value))
    return "".join(parts).rstrip()


def _output(output: Output, *, is_live: bool) -> str:
    if output["output_type"] == "stream":
        colour = ";border-left:3px solid rgba(217,83,79,0.5)" if output["name"] == "stderr" else ""
        said = plain(output["text"])
        if is_live and len(lines := said.splitlines()) > MAX_LIVE_LINES:
            said = "\n".join(["…", *lines[-MAX_LIVE_LINES:]])
        return _pre(said, colour)
    if output["output_type"] == "error":
        trace = plain("\n".join(output["traceback"])) or f"{output['ename']}: {output['evalue']}"
        return _pre(trace, f";border-left:3px solid {_COLOURS['bad']}")
    # What is too long to be shown isn't cleaned either: that takes seconds, and a block is drawn again and again.
    data = {
        mime: each if isinstance(each, str) else None
        for mime, each in output["data"].items()
        if mime in (*_PICTURES, "text/plain") or not isinstance(each, str) or len(each) <= MAX_HTML
    }
    return _rich(clean_output({**output, "data": data}))


def _rich(output: Output) -> str:
    """A display or a result, by the best form that a page shows without a script."""
    data: dict[str, Any] = output["data"]
    for mime in _PICTURES:
        if mime in data:
            encoded = "".join(str(data[mime]).split())
            return (
                f'<img src="data:{mime};base64,{encoded}" style="max-width:100%;background:white" alt="{_alt(data)}">'
            )
    if "text/html" in data and len(data["text/html"]) <= MAX_HTML:
        return f'<div style="overflow:auto;max-height:32em">{data["text/html"]}</div>'
    if "text/markdown" in data and len(data["text/markdown"]) <= MAX_TEXT:
        return f"<div>{answer_html(data['text/markdown'])}</div>"
    return _pre(plain(str(data.get("text/plain", ""))))


def _alt(data: dict[str, Any]) -> str:
    return _escaped(cut(plain(str(data.get("text/plain", "figure"))), 200)).replace('"', "&quot;")


def _pre(said: str, more: str = "") -> str:
    if not said.strip():
        return ""
    if len(said) > MAX_TEXT:
        said = ends(said, head=MAX_TEXT // 2, tail=MAX_TEXT // 2)
    return f'<pre style="{_PRE}{more};max-height:32em;overflow:auto">{_escaped(said.rstrip())}</pre>'


def _sources_html(answer: Answered, prefix: str) -> str:
    link = rf'<a href="#{_escaped(prefix)}-cell-\1">cell \1</a>'
    told = [re.sub(r"\bcell (\d+)", link, _prose(each)) for each in _sources(answer)]
    told += [f"File: {_prose(str(path))}" for path in answer.files]
    usage = answer.usage
    if tokens := usage.input_tokens + usage.output_tokens:
        told.append(f"{tokens:,} tokens" + (f", ${usage.cost:.4f}" if usage.cost else ""))
    return f'<div style="opacity:0.7;font-size:0.85em;margin-top:4px">{" · ".join(told)}</div>' if told else ""


def _escaped(said: str) -> str:
    return markup.escape(said, quote=True)


def _prose(said: str) -> str:
    """Text outside of code, where JupyterLab has MathJax set what looks like a formula."""
    return break_commands(_escaped(said))


def question_html(question: Question) -> str:
    """What a question is about, as HTML in which nothing is hidden."""
    about = visible_lines("\n".join(question.packages) or ("" if "edit" in question.choices else question.code))
    parts = [f"<b>{_prose(question.title)}</b>", f'<pre style="{_PRE}">{_escaped(about)}</pre>' if about else ""]
    parts += [f"<div>{_prose(each)}</div>" for each in (question.note, question.text) if each]
    return "".join(parts)
