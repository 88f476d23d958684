"""Runs the program `nbagent` as a person does, and writes the recorded replies that its model hands out."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

PROGRAM = Path(sys.executable).with_name("nbagent")
KEYS = (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    *("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GROQ_API_KEY", "GROQ_BASE_URL"),
    *("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL", "OLLAMA_HOST"),
)
ANSWER_KEYS = "success answer claims notebook cells installed files attempts usage engine trust replay".split()
TABLE = (
    "species,bill,mass\nAdelie,38.1,3700\nAdelie,39.5,3800\nGentoo,46.1,5100\nGentoo,47.3,5200\nChinstrap,48.9,3700\n"
)
"""A small table: two Adelie penguins, two Gentoo, one Chinstrap."""


@dataclass(frozen=True)
class Done:
    """A run that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on the one line of standard output."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self.out
        value: dict[str, Any] = json.loads(lines[0])
        return value


def sentence(done: Done) -> str:
    """What was said on stderr: short, and no traceback."""
    assert "Traceback" not in done.err
    assert 1 <= len(done.err.strip().splitlines()) <= 8
    return done.err


def environment(**more: str) -> dict[str, str]:
    """The environment of a person who has no keys and no colours."""
    kept = {name: value for name, value in os.environ.items() if name not in KEYS and not name.startswith("NBAGENT_")}
    return {**kept, "NO_COLOR": "1", **more}


def nbagent(*words: str | Path, cwd: Path, stdin: bytes = b"", seconds: float = 90, **more: str) -> Done:
    """Run the program to its end.

    Args:
        *words: Its arguments.
        cwd: Where it runs.
        stdin: What it reads.
        seconds: After which it has hung.
        **more: Further environment variables.
    """
    ran = subprocess.run(
        [PROGRAM, *words],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        timeout=seconds,
        check=False,
        env=environment(**more),
    )
    return Done(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


FORKS = """
import ast, asyncio, inspect, json, os, sys, warnings
from nbagent.agent import build
from nbagent.agent.providers import models, replay
from nbagent.faces.cli import app, ask, execute
from nbagent.session import session
from nbagent.sandbox.registry import engines
engines()

def execute(codes):
    warnings.simplefilter("error", ResourceWarning)
    for code in codes:
        names = {"__name__": "example"}
        made = eval(compile(code, "example", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.iscoroutine(made):
            asyncio.run(made)
    sys.exit()

for line in sys.stdin:
    asked = json.loads(line)
    if not (child := os.fork()):
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        for number, path in enumerate(("/dev/null", asked["out"], asked["err"])):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
        sys.argv = ["nbagent", *asked["words"]]
        try:
            execute(asked["codes"]) if asked["codes"] else app.main()
        except SystemExit as end:
            # What Python does besides at its end, module by module, takes longer than the rest.
            sys.stdout.flush()
            os._exit(end.code or 0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forks:
    """The program's `main`, or Python, in a process of its own each time, forked from one that has imported nbagent.

    For many short runs in which the import, seconds of processor time, would be nearly all there is.
    """

    def __init__(self, folder: Path) -> None:
        self._files = folder / "out", folder / "err"
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *words: str, cwd: Path, **more: str) -> Done:
        """Run the program to its end, as `nbagent` does."""
        return self._run(words=words, codes=[], cwd=str(cwd), environment=environment(**more))

    def python(self, *codes: str, cwd: Path, **more: str) -> Done:
        """Run pieces of Python one after the other, each with names of its own; they may await at their top level."""
        return self._run(words=[], codes=codes, cwd=str(cwd), environment=environment(**more))

    def _run(self, **asked: Any) -> Done:
        out, err = self._files
        for each in self._files:
            each.unlink(missing_ok=True)
        asked |= {"out": str(out), "err": str(err)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return Done(int(self._process.stdout.readline()), out.read_text(), err.read_text())

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


def call(*code: str, say: str = "") -> dict[str, Any]:
    """A reply that runs cells."""
    return {"content": say, "tool_calls": [{"name": "python", "args": {"code": each}} for each in code]}


def slowly(reply: dict[str, Any] | str, *, seconds: float) -> dict[str, Any]:
    """The same reply, whose words come over some seconds."""
    return {**({"content": reply} if isinstance(reply, str) else reply), "seconds": seconds}


def replies(path: Path, *found: dict[str, Any] | str) -> str:
    """Write a recording of replies, strings being answers; returns the model's name."""
    lines = [json.dumps({"content": each} if isinstance(each, str) else each) for each in found]
    path.write_text("\n".join(lines) + "\n")
    return f"replay:{path}"


class Terminal:
    """The program on a terminal of its own, at which a test types.

    Args:
        *words: Its arguments.
        cwd: Where it runs.
        columns: The terminal's width.
        program: Another one than nbagent.
        **more: Further environment variables.
    """

    def __init__(self, *words: str | Path, cwd: Path, columns: int = 100, program: Path = PROGRAM, **more: str) -> None:
        self.shown = ""
        self._read = 0
        variables = environment(TERM="xterm", COLUMNS=str(columns), LINES="40", **more)
        self.pid, self._ours = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(program, [str(program), *map(str, words)], variables)  # noqa: S606

    def wait_for(self, text: str, *, seconds: float = 60) -> None:
        """Wait until this is shown, after all that was waited for before."""
        end = time.monotonic() + seconds
        while (found := self.shown.find(text, self._read)) < 0:
            assert time.monotonic() < end, f"{text!r} never came: {self.shown}"
            assert self._take(0.2), f"it ended before {text!r} came: {self.shown}"
        self._read = found + len(text)

    def type(self, keys: str) -> None:
        """Press keys, Enter being a carriage return."""
        # Whoever asks drops what was typed before the question could be seen.
        time.sleep(0.2)
        os.write(self._ours, keys.encode())

    def done(self, *, seconds: float = 60) -> int:
        """Wait for the end; the exit code."""
        end = time.monotonic() + seconds
        while self._take(0.2):
            assert time.monotonic() < end, f"it does not end: {self.shown}"
        os.close(self._ours)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _take(self, seconds: float) -> bool:
        """Read what comes; whether the program is still there."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return True
        try:
            read = os.read(self._ours, 65536)
        except OSError:  # nobody has its other end open any more
            return False
        self.shown += read.decode(errors="replace")
        return bool(read)


def end_server(server: subprocess.Popen[bytes]) -> None:
    """End a Jupyter server, and wait until it has shut its kernels down; a thread of AnyIO's may keep it after that."""
    server.terminate()
    end, seen = time.monotonic() + 20, psutil.Process(server.pid)
    with contextlib.suppress(psutil.NoSuchProcess):
        while server.poll() is None and time.monotonic() < end and (seen.children() or seen.net_connections("inet")):
            time.sleep(0.05)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(timeout=0.5)
    server.kill()
    server.wait()
