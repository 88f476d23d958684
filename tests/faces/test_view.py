"""What a terminal is shown, and that text from a sandbox can't steer it there."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from nbagent.core.errors import UsageError
from nbagent.core.events import (
    Answer,
    ApprovalAsked,
    ApprovalGiven,
    Asked,
    CellFinished,
    CellStarted,
    Check,
    Claim,
    CodeGenerated,
    DataLeftOut,
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
from nbagent.core.text import plain
from nbagent.faces.terminal.console import complain, show_answer
from nbagent.faces.terminal.view import MAX_LINES, MAX_WORDS, View

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()

Shows = Callable[..., tuple[str, str]]


class Terminal(io.StringIO):
    """What is shown on a terminal."""

    def isatty(self) -> bool:
        return True


def keeper(folder: Path) -> Callable[[str, bytes], Path]:
    """Writes figures into a folder, as a session does."""

    def keep(name: str, content: bytes) -> Path:
        path = folder / "figures" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    return keep


@pytest.fixture
def shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shows:
    """Shows events; returns the cells' results and all else."""

    def show(*events: Event, **options: Any) -> tuple[str, str]:
        results = io.StringIO()
        view = View(keep_figure=keeper(tmp_path), results=results, **options)
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


def test_a_figure_becomes_a_file(shows: Shows, tmp_path: Path) -> None:
    """A figure is written to the session's folder, and its path is shown in place of it."""
    data = {"image/png": PNG, "text/plain": "<Figure>"}
    results, rest = shows(OutputAdded(cell=2, output={"output_type": "display_data", "data": data, "metadata": {}}))
    path = tmp_path / "figures" / "cell-2-figure-1.png"
    assert path.read_bytes() == b"\x89PNG\r\n\x1a\n"
    assert str(path) in rest
    assert results == ""


def test_a_broken_figure_is_no_trouble(shows: Shows) -> None:
    """A figure that is not one is passed over."""
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


def test_a_figure_in_the_terminal_carries_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the sandbox sent as base64 may hold sequences too; what is shown is encoded anew."""
    monkeypatch.setenv("TERM_PROGRAM", "iTerm.app")
    results = Terminal()
    view = View(keep_figure=keeper(tmp_path), results=results)
    for seq, data in enumerate(("\x07\x1b]52;c;QUJD\x07A" + PNG, PNG[:4] + "\n" + PNG[4:]), start=1):
        output = {"output_type": "display_data", "data": {"image/png": data, "text/plain": "x"}, "metadata": {}}
        view.show(Record(seq, 0.0, OutputAdded(cell=1, output=output)))
    view.idle()
    shown = results.getvalue()
    assert shown.count("\x1b]1337;File=") == 1
    assert "\x1b]52" not in shown


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Shows events on a terminal of some width; returns what it was sent, without the spinner."""

    def show(*events: Event, columns: int = 80, **options: Any) -> str:
        screen = io.StringIO()
        monkeypatch.setattr("sys.stderr", screen)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        view = View(keep_figure=keeper(tmp_path), **options)
        monkeypatch.setattr(view, "wait", lambda _: None)
        for number, event in enumerate(events):
            view.show(Record(number, 0.0, event))
        return screen.getvalue()

    return show


def printed(text: str) -> OutputAdded:
    """A cell has printed a text."""
    return OutputAdded(cell=1, output={"output_type": "stream", "name": "stdout", "text": text})


DONE = CellFinished(cell=1, status="ok")


def test_long_output_is_folded_on_a_terminal(terminal: Callable[..., str]) -> None:
    """The beginning is shown, and how much more there is; the next cell begins anew."""
    shown = plain(terminal(printed("x\n" * 2000), printed("y\n" * 1000), DONE, printed("z\n"), DONE))
    assert shown.count("x\n") == MAX_LINES
    assert "y\n" not in shown
    assert f"… {3000 - MAX_LINES:,} more lines, in the notebook\n" in shown
    assert shown.endswith("z\n")


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_words_stay_whole_and_tables_straight(terminal: Callable[..., str], columns: int) -> None:
    """Prose is wrapped between words, tables are cut to the width, lines of text stay as they are."""
    table = "┌" + "─" * 150 + "┐\n" + "│" + " 1" * 75 + "│\n" + "w" * 250 + "\n"
    left = DataLeftOut(reason="link", total=1, paths=["a"], text="The file is not shown, since " + "words come " * 30)
    said = ModelReplied(turn=1, text="I said " + "words come " * 30, tools=["python"])
    lines = plain(terminal(left, said, printed(table), DONE, columns=columns)).splitlines()
    prose = [line for line in lines if "words" in line]
    assert max(map(len, prose)) <= columns
    assert set(" ".join(prose).split()) <= {"I", "said", "The", "file", "is", "not", "shown,", "since", "words", "come"}
    rows = [line for line in lines if line[:1] in ("┌", "│")]
    assert {len(row) for row in rows} == {min(columns, 152)}
    assert "w" * 250 in lines


def test_what_a_terminal_shows_as_results_is_whole_and_its_tables_straight(terminal: Callable[..., str]) -> None:
    """Of `exec`, whose results are the person's: every line is there, and a table is cut to the width."""
    results = Terminal()
    terminal(printed("│" + " 1" * 75 + "│\n" + "x\n" * 2000), DONE, results=results)
    table, *lines = plain(results.getvalue()).splitlines()
    assert (len(table), table[-1], lines) == (80, "…", ["x"] * 2000)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_code_is_whole_at_every_width(terminal: Callable[..., str], columns: int) -> None:
    """A long line goes on below, between words; nothing of it is cut off."""
    code = "total = " + " + ".join(f"amount_{number}" for number in range(40))
    lines = plain(terminal(CellStarted(cell=1, turn=0, code=code), columns=columns)).splitlines()[2:]
    assert max(map(len, lines)) <= columns
    assert " ".join(lines).split() == code.split()


def test_a_terminal_shows_where_the_code_ends(terminal: Callable[..., str]) -> None:
    """An empty line stands between a cell's code and what comes of it, and none below code that shows nothing."""
    shown = plain(terminal(CellStarted(cell=1, turn=0, code="x\ny"), printed("1\n"), printed("2\n"), DONE))
    assert shown.endswith("x\ny\n\n1\n2\n")
    shown = plain(terminal(CellStarted(cell=1, turn=0, code="x"), DONE, CellStarted(cell=2, turn=0, code="y"), DONE))
    assert shown.endswith("x\n\n── cell 2\ny\n")
    error = {"output_type": "error", "ename": "E", "evalue": "no", "traceback": ["E: no"]}
    failed = CellFinished(cell=1, status="error", outputs=[error])
    assert plain(terminal(CellStarted(cell=1, turn=0, code="x"), failed)).endswith("x\n\nE: no\n")


def test_colours_can_be_read_on_white_and_on_black(terminal: Callable[..., str]) -> None:
    """Red and magenta, of the terminal's own; code, tracebacks and warnings have none of a theme's or of IPython's."""
    frames = ["\x1b[32m----> 1\x1b[39m f(\x1b[33m'a'\x1b[39m)", "\x1b[31mValueError\x1b[39m: no"]
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": frames}
    shown = terminal(
        CellStarted(cell=1, turn=0, code="@cache\ndef f():\n    return 'a', 1, True  # why"),
        InstallFailed(cell=1, requirements=["x"], reason="no such package"),
        PackagesInstalled(cell=1, packages=[Package(name="a", version="1", sha256="0")]),
        FileSaved(cell=1, path="/a", size=1, sha256="0"),
        CellFinished(cell=1, status="error", outputs=[error]),
    )
    assert "\x1b[1;49mdef\x1b[0m" in shown
    assert "\x1b[35;49m'\x1b[0m\x1b[35;49ma" in shown
    assert "\x1b[31mValueError\x1b[0m: no" in shown
    codes = {code for found in re.findall(r"\x1b\[([\d;]*)m", shown) for code in found.split(";")}
    assert codes <= {"0", "1", "2", "3", "31", "35", "49"}


def test_a_traceback_is_the_persons_own_frames(terminal: Callable[..., str]) -> None:
    """And its last line; all of it with -v."""
    frames = [
        "-----",
        "ValueError   Traceback (most recent call last)",
        "Cell In[1], line 1\n----> 1 f()",
        "File /opt/kernel/lib/a.py:3, in f",
    ]
    frames += ["File /opt/kernel/lib/b.py:4, in g", "File /workspace/helper.py:5, in h", "ValueError: no"]
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": frames}
    failed = CellFinished(cell=1, status="error", outputs=[error])
    shown = plain(terminal(failed))
    assert "/opt/" not in shown
    assert shown.startswith("Cell In[1], line 1\n")
    assert "… 2 in libraries; -v shows them" in shown
    assert "helper.py" in shown
    assert shown.endswith("ValueError: no\n")
    assert "/opt/kernel/lib/b.py:4" in terminal(failed, verbose=True)


def test_a_long_line_of_a_traceback_goes_on_below_its_code(terminal: Callable[..., str]) -> None:
    """Neither below its number nor alone beside it, however narrow the terminal is."""
    frame = "Cell In[1], line 2\n      1 x = 1\n----> 2     return read(name, separator=';').by('region')"
    frame += f"\n      3 {'y' * 50}"
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": [frame, "ValueError: no"]}
    failed = CellFinished(cell=1, status="error", outputs=[error])
    lines = plain(terminal(failed, columns=40)).splitlines()
    assert lines[:3] == ["Cell In[1], line 2", "      1 x = 1", "----> 2     return read(name, "]
    assert lines[3:5] == ["        separator=';').by('region')", f"      3 {'y' * 32}"]
    assert lines[5] == f"        {'y' * 18}"


def test_words_of_a_model_begin_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the spinner is the end of what it writes, from the beginning of a word; a text without blanks is cut."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    view = View(keep_figure=keeper(tmp_path))
    view.wait("thinking")
    said = []
    for number in range(40):
        view.hear_words(1, f"[bold]word{number} ")
        said.append(view._status.tasks[0].description)
    view.hear_words(1, "字" * 500)
    last = view._status.tasks[0].description
    view.idle()
    assert all(each.startswith("[bold]word") and len(each) <= MAX_WORDS for each in said)
    assert said[-1].endswith(" [bold]word39")
    assert set(last) == {"字"}


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_time_stands_beside_what_a_download_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """However narrow the terminal is; what has no room of the rest is cut, and so is seen."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    view = View(keep_figure=keeper(tmp_path))
    view.wait("starting the sandbox")
    view.tell(
        "downloading the kernel's packages, once … 117 of 211 MB: scikit-learn, pyarrow, polars, matplotlib, scipy"
    )
    with view.console.capture() as taken:
        view.console.print(view._status.get_renderable())
    view.idle()
    (line,) = (each.rstrip() for each in plain(taken.get()).splitlines() if "downloading" in each)
    assert "117 of 211 MB" in line or columns < 80
    assert re.search(r"\d:\d\d:\d\d$", line)


def test_the_spinner_keeps_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells how long the person has waited for the answer, whatever is done at the moment."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    view = View(keep_figure=keeper(tmp_path))
    starts = []
    for what in ("thinking", "cell 1 runs", "thinking"):
        view.wait(what)
        starts.append(view._status.tasks[0].start_time)
        view.idle()
    assert len(set(starts)) == 1


def answered(text: str) -> Answer:
    """An answer of these words."""
    return Answer(turn=1, text=text, success=True, attempts=1)


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_what_is_told_of_an_answer_stands_below_it(monkeypatch: pytest.MonkeyPatch, kind: type[io.StringIO]) -> None:
    """Where a reader has read the numbers that no cell shows; then how the check ended."""
    shown = kind()
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.setattr("sys.stderr", shown)
    show_answer(structs.replace(answered("It is 42."), claims=[Claim("42")], check=Check(cells=[])))
    lines = [line.rstrip() for line in plain(shown.getvalue()).splitlines() if line.strip()]
    assert lines[:2] == ["It is 42.", "Shown by no cell: 42."]
    assert lines[2].startswith("Not checked: ")


def test_an_answer_is_formatted_on_a_terminal_alone(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """A program that reads it gets it as it was written."""
    show_answer(answered("It is **42**."))
    assert capsys.readouterr().out == "It is **42**.\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    show_answer(answered("It is **42**, by [a page](https://example.org/).\n\n- one\n- two"))
    shown = capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    show_answer(answered("`a`\n\n1. b\n\n- c\n\n> d\n\n|a|\n|-|\n|b|\n\n[x](https://example.org/)\n\n---\n\n    code"))
    assert not re.search(r"\x1b\[(?:\d+;)*(?:3[0234678]|4[0-8]|9\d)\b", capsys.readouterr().out)
    shown = plain(shown)
    assert shown.startswith("\nIt is 42, by a page (https://example.org/).")
    assert "• one" in shown
