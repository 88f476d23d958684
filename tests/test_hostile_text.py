"""Whatever an output or an answer holds, each of nbagent's own readers of text ends, soon, and with a result."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import nbformat
import pytest
from hostile_texts import BUNDLES, UNITS, texts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.shared import junk

from nbagent.agent import cell_view, claims
from nbagent.agent.dataset.section import DataView
from nbagent.agent.messages import answer_text, generated, mistaken
from nbagent.agent.tools import script_cells, scripts
from nbagent.core.events import (
    Answered,
    Asked,
    Cell,
    CellFinished,
    CellStarted,
    Event,
    Output,
    OutputAdded,
    Record,
    Usage,
    text_of,
)
from nbagent.core.session_log import SessionLog
from nbagent.core.text import one_line, safe, visible
from nbagent.faces.terminal import excerpt
from nbagent.faces.terminal.view import View
from nbagent.kernel.describe import Profiles
from nbagent.kernel.execution import ExecuteRequest
from nbagent.kernel.outputs.displays import DisplayIndex
from nbagent.kernel.outputs.outputs import CellOutputs
from nbagent.kernel.profile import Column, FileProfile, Table
from nbagent.mcp.capabilities import needs_of
from nbagent.notebook.build import build
from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.dates import Moments
from nbagent.notebook.compare.reads import Code, Reads
from nbagent.notebook.compare.texts import Context
from nbagent.notebook.document import DocumentCell
from nbagent.notebook.formats import markdown, percent
from nbagent.notebook.lock import imports, seeds
from nbagent.notebook.nodes import new_code_cell, new_markdown_cell, new_notebook
from nbagent.notebook.page import page
from nbagent.notebook.record import record
from nbagent.notebook.sweep import with_stable_sorts
from nbagent.observability.audit.entries import entries
from nbagent.safety import columns, sanitize
from nbagent.safety.programs import programs
from nbagent.safety.redaction import Redactor
from nbagent.safety.sanitize import specs

LONG = 20_000
"""Characters: enough for what is square in them to be felt."""
REDACT = Redactor("pii", secrets={"hunter2hunter2": "SECRET"})


def shown(kind: str, content: Any) -> list[Output]:
    """The outputs that a message makes."""
    cell = CellOutputs(displays=DisplayIndex())
    cell.add({"header": {"msg_type": kind}, "content": content})
    return cell.outputs()


def displayed(mime: str, value: Any) -> list[Output]:
    """A MIME bundle of one."""
    return shown("display_data", {"data": {mime: value}, "metadata": {}})


def printed(text: str) -> list[Output]:
    """What a cell printed."""
    return shown("stream", {"name": "stdout", "text": text})


def failed(text: str) -> list[Output]:
    """An error that says so."""
    return shown("error", {"ename": text[:200], "evalue": text, "traceback": [text, f"File /x.py\n{text}"]})


def rendered(outputs: list[Output]) -> object:
    """What the model sees of a cell."""
    return cell_view.render(Cell(cell=1, code="1", status="ok", outputs=outputs), images=True)


def generate(text: str) -> None:
    """A structured reply, or the reason why it is none."""
    with contextlib.suppress(generated.UnreadableReplyError):
        generated.parse(text)


def described(text: str) -> str:
    """The data's description for the model."""
    column = Column(text, dtype=text, sample=[text, None], values={text: 2}, others={text: 1}, form=text, unit=text)
    table = Table(text, rows=5, columns=[column], width=1, call=text, raw=[text], note=text)
    file = FileProfile(text, kind=text, note=text, tables=[table], text=text, is_note=True)
    return DataView(Profiles([file])).section(text)


def cleaned(mime: str, value: Any) -> object:
    """What a notebook has of an output."""
    return sanitize.clean_output(displayed(mime, value)[0])


def compared(mime: str, text: str) -> object:
    """What differs between an output and two fresh ones, of which each has a bit more."""
    show = printed if not mime else lambda each: displayed(mime, each)
    outputs = [show(text + more) for more in ("", " 1", " 2 3")]
    context = Context(moments=Moments(stored=None, fresh=0.0, elapsed=1.0), reads=Reads(clock=True))
    return compare(outputs[0], outputs[1], context, again=[outputs[2]])


def coded(text: str) -> object:
    """What is read of the code of a cell, be it a model's or in anybody's notebook."""
    cell = DocumentCell(id="c", number=1, code=text)
    request = ExecuteRequest("m", CellOutputs(displays=DisplayIndex()), 1, 0.0)
    request.reply = {"status": "error", "ename": "ModuleNotFoundError", "evalue": "No module named 'a'"}
    return (
        *(cell.installs, cell.is_block, Code().take(text), with_stable_sorts(text), programs(text)),
        *(seeds(Cell(cell=1, code=text, status="ok")), request.missing_module(text)),
    )


def written(text: str) -> object:
    """A notebook of this text, as a script, as Markdown and as a page."""
    notebook = new_notebook(
        [new_markdown_cell(text, id="m", metadata={}), new_code_cell(text, id="c", metadata={}, outputs=printed(text))],
        {},
    )
    return percent(notebook), markdown(notebook), page(notebook, title=text)


READERS: dict[str, Callable[[str], object]] = {
    "claims of an answer": lambda text: claims.claims(text, {1: printed("1 2.5 3")}),
    "claims in outputs": lambda text: claims.claims("12.5 of 9,999,999", {1: printed(text)}, given=[text]),
    "claims in both": lambda text: claims.claims(text, {1: printed(text)}, given=[text]),
    "a stream for the model": lambda text: rendered(printed(text)),
    "HTML for the model": lambda text: rendered(displayed("text/html", text)),
    "a picture for the model": lambda text: rendered(displayed("image/png", text)),
    "an error for the model": lambda text: rendered(failed(text)),
    "the answer": answer_text.clean_answer,
    "redaction": REDACT,
    "columns": lambda text: list(columns.secret_columns(text)),
    "the terminal": lambda text: (safe(text), safe(text, colours=True), one_line(text), visible(text)),
    "an excerpt": lambda text: excerpt.excerpt(text, width=80),
    "mistaken": lambda text: (mistaken.is_blank(text), mistaken.is_call(text, ["x"]), mistaken.is_bare_code(text)),
    "generated": generate,
    "a command": scripts.words_of,
    "what a question needs": needs_of,
    "cells of scripts": lambda text: (script_cells.literal(text), script_cells.write_file("/tmp/a", text)),
    "the data": described,
    "Markdown in a notebook": sanitize.clean_markdown,
    "LaTeX in a notebook": sanitize.clean_latex,
    "HTML in a notebook": lambda text: cleaned("text/html", text),
    "SVG in a notebook": lambda text: cleaned("image/svg+xml", f"<svg>{text}</svg>"),
    "a style in a notebook": lambda text: cleaned("text/html", f'<p style="{text}">x</p>'),
    "a figure in a notebook": lambda text: cleaned(specs.PLOTLY, {"data": [{"text": text}], "layout": {text: 1}}),
    "code in a notebook": imports,
    "code": coded,
    "a comparison": lambda text: compared("", text),
    "a comparison of HTML": lambda text: compared("text/html", text),
    "a script": written,
}


SHORTER = {"code": LONG // 10, "a script": LONG // 5, "a comparison": LONG // 20, "a comparison of HTML": LONG // 20}
"""Characters for readers that read a text several times, or character by character."""


def seconds(reader: str, text: str, *, enough: float) -> float:
    """What it takes of this thread, at best: Python collects what others have left whenever it likes.

    A first time that is `enough` isn't measured again.
    """

    def once() -> float:
        started = time.thread_time()
        READERS[reader](text)
        return time.thread_time() - started

    took = once()
    return took if took <= enough else min(took, once(), once())


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_ends_soon(reader: str) -> None:
    """Its time grows with the text and no faster, whatever the text repeats, and it raises nothing."""
    length = SHORTER.get(reader, LONG)
    short, pace = texts(length // 4), machine.pace()
    for name, text in texts(length).items():
        if text == short[name]:  # it isn't said over and over
            assert seconds(reader, text, enough=60 * pace) < 60 * pace, f"{reader}: {name}"
            continue
        took = seconds(reader, text, enough=3 * pace)
        if took > 3 * pace:
            part = seconds(reader, short[name], enough=3 * pace)
            assert took < 8 * part + machine.pace(), f"{reader}: {name}"


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(text=st.lists(st.one_of(st.text(), st.sampled_from(sorted(UNITS.values()))), max_size=8).map("".join))
def test_a_reader_takes_any_text(text: str) -> None:
    """Whatever it is put together from."""
    for read in READERS.values():
        read(text)


@pytest.mark.parametrize("text", ["9" * 1_000_001, "0." + "9" * 1_000_001, "9" * 5_000 + "e999"])
def test_a_number_of_a_million_digits_is_none(text: str) -> None:
    """Neither claimed nor shown is it a number that could be compared; those beside it still are."""
    found = claims.claims(f"It is 42.5 or {text}.", {1: printed(f"{text} 42.5")})
    assert [(each.text, each.supported) for each in found if each != claims.REST] == [("42.5", True)]


# -- whole outputs ------------------------------------------------------------------------------------------------

messages = st.one_of(
    st.tuples(st.just("stream"), st.fixed_dictionaries({"name": junk, "text": junk})),
    st.tuples(
        st.sampled_from(["display_data", "execute_result", "update_display_data"]),
        st.fixed_dictionaries({"data": junk, "metadata": junk, "transient": junk, "execution_count": junk}),
    ),
    st.tuples(st.just("error"), st.fixed_dictionaries({"ename": junk, "evalue": junk, "traceback": junk})),
    st.tuples(
        st.just("display_data"),
        st.fixed_dictionaries({
            "data": st.dictionaries(
                st.sampled_from(["text/plain", "text/html", "image/png", "image/svg+xml", "application/json"]), junk
            )
        }),
    ),
)  # fmt: skip


def events_of(outputs: list[Output], answer: str) -> list[Event]:
    """A turn of one cell."""
    facts: dict[str, Any] = {"cell": 1, "status": "ok", "duration": 0.5, "outputs": outputs, "execution_count": 1}
    told = [OutputAdded(cell=1, output=each) for each in outputs]
    found = claims.claims(answer, {1: outputs})
    usage = Usage(1, 1, 1)
    ended = Answered(turn=1, text=answer, success=True, attempts=1, usage=usage, seconds=1.0, claims=found)
    asked = Asked(turn=1, question="How many?", model="m", replay=False)
    return [asked, CellStarted(cell=1, turn=1, code="1"), *told, CellFinished(**facts), ended]


def read_all(outputs: list[Output], answer: str, folder: Path) -> None:
    """Have every reader of a turn read it: log, notebook, audit, terminal, model."""
    log = SessionLog(folder, f"s{time.monotonic_ns()}")
    results = io.StringIO()
    screen = View(keep_figure=lambda _name, _content: None, results=results)
    seen: list[Record] = []
    try:
        log.follow(seen.append)
        log.follow(screen.show)
        for event in events_of(outputs, answer):
            log.emit(event)
        assert list(log.since())[-1].seq == len(seen)
    finally:
        log.close()
    notebook = build(record(seen))
    nbformat.validate(notebook)
    json.dumps(notebook, ensure_ascii=False, allow_nan=False).encode()
    assert list(entries(seen))
    rendered(outputs)
    text_of(outputs)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(sent=st.lists(messages, max_size=4), answer=st.text())
def test_whatever_a_cell_shows_is_read(tmp_path: Path, sent: list[tuple[str, Any]], answer: str) -> None:
    """Log, notebook, audit log, terminal and the model's view take all that a kernel's messages can become."""
    cell = CellOutputs(displays=DisplayIndex())
    for kind, content in sent:
        cell.add({"header": {"msg_type": kind}, "content": content})
    read_all(cell.outputs(), answer, tmp_path)


@pytest.mark.parametrize(
    ("kind", "content", "answer"),
    [
        *(("display_data", {"data": each}, "It is 1e999999999, 5 %") for each in BUNDLES),
        ("execute_result", {"data": {"text/plain": "1"}, "execution_count": -1.5}, "\ud800"),
        ("stream", {"name": 5, "text": "9" * 1_000_001}, "9" * 1_000_001),
        ("stream", {"name": "stdout", "text": "x" * 10_000_000}, "[" * 100_000),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_what_hostile_code_shows_is_read(tmp_path: Path, kind: str, content: dict[str, Any], answer: str) -> None:
    """The same, for what was seen to cost a turn, or could."""
    read_all(shown(kind, content), answer, tmp_path)
