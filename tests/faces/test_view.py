"""What a terminal is shown, and that text from a sandbox can't steer it."""

from __future__ import annotations

import base64
import io
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.errors import UsageError
from nbagent.events import (
    ApprovalAsked,
    ApprovalGiven,
    Asked,
    CellFinished,
    CellStarted,
    CodeGenerated,
    Event,
    FileDownloaded,
    FileSaved,
    FilesChanged,
    FileSeen,
    FileUploaded,
    HostAsked,
    HostDecided,
    InstallFailed,
    ModelReplied,
    OutputAdded,
    Package,
    PackagesInstalled,
    Record,
    StateLost,
)
from nbagent.faces.terminal.view import View, complain, safe

SGR = re.compile(r"\x1b\[[0-9;:]*m")
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
WORDS = "\x1b [ ] \\ \x07 m ; 0 31 8;;http://x 52;c;QUJD 2J H P _ ^ X \x9b \x9d \x90 \x9c ? ( c a é \u202e \ud800"
PIECES = st.sampled_from([*WORDS.split(" "), " ", "\r", "\n", "\r\n"])
TEXTS = st.lists(PIECES | st.characters(), max_size=40).map("".join)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]8;;http://evil\x1b\\here\x1b]8;;\x1b\\", "here"),
        ("\x1b]8;;http://evil\x07here\x1b]8;;\x07", "here"),
        ("\x1b]52;c;cm0gLXJmIC8=\x07x", "x"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]1337;File=name=x:AAAA\x07x", "x"),
        ("a\x1b[2Jb", "ab"),
        ("a\x1b[1;1Hb\x1b[Kc\x1b[?25ld", "abcd"),
        ("a\x1b[6nb\x1bcd\x1b(0e", "abde"),
        ("a\x1bPq#0\x1b\\b\x1b_Gdata\x1b\\c\x1b^x\x1b\\d\x1bXy\x1b\\e", "abcde"),
        ("a\x9b2Jb\x9d0;t\x9cc", "a\ufffd2Jb\ufffd0;t\ufffdc"),
        ("a\x07b\x08c\x00d\x7fe\x0e", "a\ufffdb\ufffdc\ufffdd\ufffde\ufffd"),
        ("a\x1b", "a"),
        ("a\x1b[", "a"),
        ("a\x1b]0;never ended", "a"),
        ("a\tb\nc\r\nd\re", "a\tb\nc\nd\re"),
        ("Größe 🐧 …", "Größe 🐧 …"),
    ],
)
def test_what_steers_a_terminal_is_taken_out(text: str, shown: str) -> None:
    """Links, the clipboard, titles, pictures, clearing, moving, reports, resets and C1 controls have no effect."""
    assert safe(text) == shown


def test_colours_are_kept_where_they_are_wanted() -> None:
    """A traceback's colours stay; without colours nothing of them is left."""
    text = "\x1b[31mred\x1b[0m \x1b[38;5;28;01mgreen\x1b[m \x1b[38:2::1:2:3mx"
    assert safe(text) == text
    assert safe(text, colours=False) == "red green x"


@given(TEXTS)
def test_no_escape_but_colours_remains(text: str) -> None:
    """Whatever the text, all that is left of escapes are whole colour sequences, and of controls only blanks."""
    rest = SGR.sub("", safe(text))
    assert "\x1b" not in rest
    assert CONTROLS.search(rest) is None


@given(TEXTS)
def test_without_colours_no_escape_remains(text: str) -> None:
    """Text that is shown without colours holds no escape at all."""
    assert CONTROLS.search(safe(text, colours=False)) is None


@given(st.text(st.characters(exclude_categories=["C"]) | st.sampled_from("\n\t")))
def test_plain_text_is_left_alone(text: str) -> None:
    """Text without controls is shown to the letter."""
    assert safe(text) == text


@pytest.mark.parametrize("text", ["\x1b[" + "0;" * 500_000, "\x1b]" * 500_000, "\x1b[" * 500_000, "\x1b" * 1_000_000])
def test_hostile_text_takes_no_time(text: str) -> None:
    """A megabyte of unfinished sequences is cleaned in about the time that it takes to read it."""
    started = time.thread_time()
    assert "\x1b" not in safe(text)
    assert time.thread_time() - started < 30 * machine.pace()


Shows = Callable[..., tuple[str, str]]


@pytest.fixture
def shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shows:
    """Shows events; returns the cells' results and all else."""

    def show(*events: Event, **options: Any) -> tuple[str, str]:
        results = io.StringIO()
        view = View(folder=lambda: tmp_path, results=results, **options)
        for number, event in enumerate(events, start=1):
            view.show(Record(number, 0.0, event))
        view.idle()
        return results.getvalue(), capsys.readouterr().err

    return show


def stream(text: str) -> OutputAdded:
    """A piece of standard output."""
    return OutputAdded(cell=1, output={"output_type": "stream", "name": "stdout", "text": text})


def finished(**more: Any) -> CellFinished:
    """The end of a cell."""
    facts: dict[str, Any] = {"cell": 1, "status": "ok", "outputs": [], "execution_count": 1, "duration": 0.25}
    return CellFinished(**facts | more)


def test_a_cell_is_shown_with_its_code_and_its_output(shows: Shows) -> None:
    """The code goes beside the results, and the results are what the cell printed."""
    results, rest = shows(CellStarted(cell=3, turn=1, code="print(1)"), stream("1\n"), finished())
    assert results == "1\n"
    assert rest.endswith("3\nprint(1)\n")


def test_code_is_shown_to_the_letter(shows: Shows) -> None:
    """Nothing in code is taken for markup or for the name of an emoji."""
    code = "x[a:b:c]; y = '[red]:smile:[/red]'; z = x[1:100:2]"
    assert code in shows(CellStarted(cell=1, turn=1, code=code))[1]


def test_a_long_line_is_not_folded_in_a_file(shows: Shows) -> None:
    """Output that goes to a file keeps its lines, whatever the width of a terminal."""
    line = "x" * 500
    results, rest = shows(CellStarted(cell=1, turn=1, code=line), stream(line + "\n"), finished(note=line))
    assert results == line + "\n"
    assert rest.count(line) == 2


def test_an_unfinished_line_is_ended_before_something_else(shows: Shows) -> None:
    """What follows output without a line's end begins on a line of its own."""
    results, _ = shows(stream("a"), stream("b"), finished(note="note"))
    assert results == "ab\n"


def test_a_result_is_shown_as_text(shows: Shows) -> None:
    """HTML means nothing to a terminal."""
    data = {"text/plain": "42", "text/html": "<b>42</b>"}
    results, _ = shows(OutputAdded(cell=1, output={"output_type": "execute_result", "data": data, "metadata": {}}))
    assert results == "42\n"


def test_output_of_a_sandbox_is_made_safe_wherever_it_shows(shows: Shows) -> None:
    """Streams, results, tracebacks, notes, code, words of the model and reasons can't steer the terminal."""
    evil = "a\x1b]0;title\x07b\x1b[2Jc"
    error = {"output_type": "error", "ename": "E", "evalue": evil, "traceback": [evil]}
    result = {"output_type": "execute_result", "data": {"text/plain": evil}, "metadata": {}}
    results, rest = shows(
        CellStarted(cell=1, turn=1, code=evil),
        stream(evil),
        OutputAdded(cell=1, output=result),
        finished(status="error", outputs=[error], note=evil),
        ModelReplied(turn=1, text=evil, tools=["python"]),
        StateLost(cell=1, reason=evil),
        HostAsked(id="h1", host=evil, port=443),
        HostDecided(host=evil, port=443, allowed=False, by="policy", reason=evil),
        InstallFailed(cell=1, requirements=[], reason=evil),
        ApprovalAsked(id="a1", turn=1, kind="cell", tool="python", what=f"{evil}\n"),
        ApprovalGiven(id="a1", turn=1, decision="reject", by="person", reason=evil),
    )
    assert "\x1b" not in results + rest
    assert results.count("abc") == 2
    assert rest.count("abc") == 10
    assert rest.endswith("not approved: abc . abc\n")


def test_a_picture_becomes_a_file(shows: Shows, tmp_path: Path) -> None:
    """A figure is written to the session's folder, and its path is shown in place of it."""
    data = {"image/png": PNG, "text/plain": "<Figure>"}
    results, rest = shows(OutputAdded(cell=2, output={"output_type": "display_data", "data": data, "metadata": {}}))
    path = tmp_path / "figures" / "cell-2-1.png"
    assert path.read_bytes() == b"\x89PNG\r\n\x1a\n"
    assert str(path) in rest
    assert results == ""


def test_a_broken_picture_is_no_trouble(shows: Shows) -> None:
    """A picture that is not one is passed over."""
    data = {"image/png": "&&&&&", "text/plain": "x"}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    assert "Traceback" not in shows(OutputAdded(cell=2, output=output))[1]


def test_what_must_be_known_is_told(shows: Shows) -> None:
    """A replay, an install, a file, a stopped cell, a question and a denial are each told in a line."""
    _, rest = shows(
        Asked(turn=1, question="?", model="replay:r.jsonl", replay=True),
        CodeGenerated(turn=1, code="1", reasoning="Why.", confidence=0.9),
        CodeGenerated(turn=1, code="1", reasoning="Why.", confidence=0.25),
        PackagesInstalled(cell=1, packages=[Package("humanize", "4.17.0", "0")]),
        FileSaved(path="/out/x.csv", size=1, sha256="0", cell=1),
        FilesChanged(cell=1, files=[FileSeen("/workspace/m.pkl", 2_100_000), FileSeen("/tmp/\x1b[2Jt", 1)], more=4),
        FileUploaded(path="/workspace/up.csv", name="up.csv", size=1, sha256="0"),
        FileDownloaded(path="/workspace/m.pkl", size=1, sha256="0", to="/home/m.pkl"),
        FileDownloaded(path="/workspace/memory", size=1, sha256="0"),
        finished(status="timeout", note="It ran longer than its limit."),
        HostAsked(id="h1", host="example.org", port=443),
        HostDecided(host="example.org", port=443, allowed=True, by="person"),
        HostDecided(host="evil.test", port=80, allowed=False, by="person", reason="A person denied evil.test."),
    )
    assert rest.count("the model is not sure of this code: confidence 0.25\n") == rest.count("not sure") == 1
    assert "changed: /workspace/m.pkl (2.1 MB), /tmp/t (1 bytes) and 4 more\n" in rest
    assert "uploaded: /workspace/up.csv\n" in rest
    assert "file: /home/m.pkl\n" in rest
    assert "memory" not in rest
    assert "recorded replies; everything else is live" in rest
    assert "installed humanize 4.17.0\n" in rest
    assert "/out/x.csv" in rest
    assert "cell 1 ran too long after 0.2 s" in rest
    assert rest.endswith("the code wants to reach example.org:443\nnot reached: A person denied evil.test.\n")


def test_quiet_shows_only_what_must_be_known(shows: Shows) -> None:
    """With --quiet no cell shows, but lost variables and a package that could not be had do."""
    results, rest = shows(
        CellStarted(cell=1, turn=1, code="code"),
        stream("out"),
        finished(),
        StateLost(cell=1, reason="the kernel died"),
        InstallFailed(cell=1, requirements=["x"], reason="no such package"),
        quiet=True,
    )
    assert results == ""
    assert rest == "the kernel died\nnot installed: no such package\n"


def test_an_error_is_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """A complaint says what happened, then the mend, without markup, escapes or folding."""
    complain(UsageError("There is no [red]\x1b[2Jfile " + "x" * 200, mend="Look :smile: again."))
    assert capsys.readouterr().err == f"There is no [red]file {'x' * 200}\nLook :smile: again.\n"


def test_a_picture_in_the_terminal_carries_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the sandbox sent as base64 may hold sequences too; what is shown is encoded anew."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM_PROGRAM", "iTerm.app")
    results = Terminal()
    view = View(folder=lambda: tmp_path, results=results)
    data = {"image/png": "\x07\x1b]52;c;QUJD\x07A" + PNG, "text/plain": "x"}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    view.show(Record(1, 0.0, OutputAdded(cell=1, output=output)))
    view.idle()
    shown = results.getvalue()
    assert shown.count("\x1b]1337;File=") == 1
    assert "\x1b]52" not in shown
