"""`nbagent run` and `nbagent demo`: one question, its answer and its notebook."""

from __future__ import annotations

import contextlib
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import resources
from typing import TYPE_CHECKING

from nbagent.core.budget import amount, dollars
from nbagent.core.events import Answer, Usage
from nbagent.faces.cli import EXIT_STOPPED, json_output
from nbagent.faces.cli.flags import CommandFlags
from nbagent.faces.cli.work import work
from nbagent.faces.terminal.console import show_answer
from nbagent.faces.terminal.view import View

if TYPE_CHECKING:
    from nbagent.session.protocol import AnySession

DEMO = (
    "The model's replies are a recording, so no key is needed. Everything else is live: the sandbox, the code that "
    "runs in it, the package it installs, the figure and the notebook."
)


async def ask(question: str, make: Callable[[], AnySession], *, wanted: CommandFlags) -> int:
    """Ask one question, and print the answer; returns the exit code."""
    answer: Answer | None = None

    async def do(session: AnySession, _: View) -> None:
        nonlocal answer
        answer = await session.ask(question)

    ended = await work(make, do, wanted=wanted, exports=lambda session: session.turns > 0)
    unfinished = ended.session.unfinished if ended.session else None
    if answer is None and unfinished is not None and unfinished.success:
        answer = unfinished  # it was stopped while its answer was checked
    if wanted.as_json:
        json_output.show(json_output.answered(answer, ended))
    else:
        if answer is not None:
            show_answer(answer)
        if ended.notebook is not None:
            print(f"notebook: {ended.notebook}", file=sys.stderr)
        done = answer or unfinished
        is_replay = ended.session is not None and ended.session.is_replay
        if done is not None and not is_replay and (used := _used(done.usage)):
            print(used, file=sys.stderr)
    if answer is None and ended.error is None:
        return EXIT_STOPPED
    return ended.code(wanted, succeeded=answer is not None and answer.success)


def _used(usage: Usage) -> str:
    """Tokens and money that an answer has used, as a sentence; empty if it has used none."""
    tokens = usage.input_tokens + usage.output_tokens
    if not tokens:
        return ""
    money = "" if usage.cost is None else f", {dollars(usage.cost)} by the price list" if usage.cost else ", free"
    return f"used: {tokens:,} tokens in {amount('steps', usage.calls)}{money}"


@contextlib.contextmanager
def demo(*, quiet: bool) -> Iterator[tuple[str, str, str]]:
    """Print what the demo is; yields its question, the path of its data, and the model with its recorded replies."""
    folder = resources.files("nbagent.faces") / "demo"
    with resources.as_file(folder / "penguins.csv") as data, resources.as_file(folder / "replies.jsonl") as replies:
        question = (folder / "question.txt").read_text(encoding="utf-8").strip()
        if not quiet:
            width = shutil.get_terminal_size((120, 0)).columns
            told = [textwrap.fill(each, width) for each in (DEMO, f"> {question}")]
            print(*told, sep="\n\n", end="\n\n", flush=True)
        yield question, str(data), f"replay:{replies}"
