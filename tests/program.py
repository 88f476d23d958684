"""Runs the program `nbagent` as a person does, and writes the recorded replies that its model hands out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("nbagent")
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
ANSWER_KEYS = "success answer notebook cells installed files attempts usage engine trust replay".split()
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


def call(*code: str, say: str = "") -> dict[str, Any]:
    """A reply that runs cells."""
    return {"content": say, "tool_calls": [{"name": "python", "args": {"code": each}} for each in code]}


def replies(path: Path, *found: dict[str, Any] | str) -> str:
    """Write a recording of replies, strings being answers; returns the model's name."""
    lines = [json.dumps({"content": each} if isinstance(each, str) else each) for each in found]
    path.write_text("\n".join(lines) + "\n")
    return f"replay:{path}"
