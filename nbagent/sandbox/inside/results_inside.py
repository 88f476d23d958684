"""Sends what cells save to the controller, which puts it beside the notebook (`results/receiver.py`), and says so.

Only in kernels that another client started: a session fetches its files itself. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import sys
from typing import Any

from file_watch_inside import METADATA_KEY, WHY_ODD, TreeWatch, uninterrupted  # type: ignore[import-not-found]

ROOTS = ("/tmp/output", "/workspace")  # noqa: S108 - paths inside
SEARCH_SECONDS = 0.2
"""Seconds after a cell for finding files that were overwritten in place, among thousands."""
ANSWER_SECONDS = 120.0
MAX_ROUNDS = 50
"""How many times in a row as many files are sent as one cell may save."""
NAMED_FILES = 10
"""Files that a cell names."""


def keep_results(shell: Any, controller: str, config: dict[str, Any]) -> None:
    """From now on, send what a cell has saved when it ends, and have the cell say where it is.

    Args:
        shell: IPython's.
        controller: The path of its socket.
        config: The folder's name for people as `label`; as `files`, how many files are sent at a time.
    """
    import atexit

    watch = TreeWatch([[ROOTS[0], [], True, True], [ROOTS[1], [], False, True]], [config["files"]] * 2)

    def after_run(_: Any) -> None:
        # What a session's cell saves in this kernel is the session's.
        theirs = METADATA_KEY in (shell.kernel.get_parent().get("metadata") or {})
        with contextlib.suppress(Exception), uninterrupted():
            saved, left = send_all(watch, controller) if not theirs else (look(watch) and [], [])
            if saved:
                text = f"nbagent: saved in {config['label']}: {named(saved)}"
                # Apart from what the cell prints: programs read that.
                shell.display_pub.publish({"text/plain": text})
            for each in left[:NAMED_FILES]:
                print(f"nbagent: {each}", file=sys.stderr)
            if len(left) > NAMED_FILES:
                print(f"nbagent: so it is with {len(left) - NAMED_FILES:,} more files.", file=sys.stderr)

    shell.events.register("post_run_cell", after_run)
    # What threads wrote after the last cell; nobody is there to be told.
    atexit.register(send_all, watch, controller)


def look(watch: Any) -> list[Any]:
    """The report on each root: what is new or changed since the last look."""
    return watch.look(watch.number, SEARCH_SECONDS, [])["trees"]  # type: ignore[no-any-return]


def send_all(watch: Any, controller: str) -> tuple[list[str], list[str]]:
    """Send what is new; returns what was saved, and what was not with the reason, in words."""
    saved: list[str] = []
    left: list[str] = []
    for _ in range(MAX_ROUNDS):
        waits = 0
        for root, found in zip(ROOTS, look(watch), strict=True):
            left += [not_delivered(name, WHY_ODD[kind]) for name, kind in found["odd"]]
            waits += found["fresh"] - len(found["files"])
            for name, *_ in found["files"]:
                try:
                    as_name = send(f"{root}/{name}", controller)
                    saved.append(name if as_name == name else f"{name} as {as_name}")
                except OSError as error:
                    left.append(not_delivered(name, str(error.strerror or error)))
        if not waits:
            return saved, left
    return saved, [*left, f"{waits:,} more files come after the next cell."]


def send(path: str, controller: str) -> str:
    """Send a file; returns its name in the person's folder.

    Raises:
        OSError: It was not saved; it says why.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no plain file")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, connection.makefile("rb") as answers:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(controller)
            connection.sendall(
                json.dumps({"save": os.fsencode(path).decode("utf-8", "replace"), "size": status.st_size}).encode()
                + b"\n"
            )
            answer = read(answers)
            if "go" in answer:
                sent = 0
                while sent < status.st_size and (more := os.pread(file, min(1 << 20, status.st_size - sent), sent)):
                    connection.sendall(more)
                    sent += len(more)
                if sent < status.st_size:
                    raise OSError("it changed while it was sent")
                answer = read(answers)
    finally:
        os.close(file)
    if "saved" not in answer:
        raise OSError(str(answer.get("error")))
    return str(answer["saved"])


def read(answers: Any) -> dict[str, Any]:
    """The controller's next answer."""
    line = answers.readline()
    if not line:
        raise OSError("nbagent does not answer")
    answer: dict[str, Any] = json.loads(line)
    return answer


def not_delivered(name: str, why: str) -> str:
    """The sentence about a file that was not saved, in the words that sessions use."""
    return f"{shown(name)} was not delivered: {why}."


def named(files: list[str]) -> str:
    """The names of some files, and how many more there are."""
    more = len(files) - NAMED_FILES
    return ", ".join(map(shown, files[:NAMED_FILES])) + (f" and {more:,} more" if more > 0 else "")


def shown(name: str) -> str:
    """A name on one line, whatever characters it has."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)[:200]
