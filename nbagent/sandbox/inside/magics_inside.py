"""What nbagent adds to IPython in a sandbox: `%pip install`, PEP 723 blocks, notices, errors instead of shells.

Imported by `ipykernel_inside.py` there; standard library only.
"""

from __future__ import annotations

import ast
import contextlib
import json
import random
import re
import socket
import sys
from functools import partial
from typing import Any

SCRIPT = r"(?m)^# /// script\s*$\n(?P<block>(?:^#(?:| .*)$\n)+?)^# ///\s*$"
"""Inline script metadata, as PEP 723 has it."""
DONE = "nbagent_done"
"""Metadata of a request: how many of a cell's statements have run already."""
KEPT = r"_i?\d+"
"""Names under which IPython keeps inputs and outputs."""
PIP = r"(?m)^([ \t]*)!\s*(?:python3?\s+-m\s+|uv\s+)?pip3?\s+install\s"


def offer_installs(shell: Any, controller: str, *, tell: bool) -> None:
    """Have `%pip install`, `!pip install` and the PEP 723 block of a cell ask the controller: there is no network.

    Args:
        shell: IPython's.
        controller: The path of its socket.
        tell: Whether a cell with such a block says what was installed for it, because nobody else would. One that
            names all versions, as an export does, says it already, and shows the same wherever it runs.
    """

    def pip(line: str) -> None:
        """Install packages into this session: `%pip install NAME …`."""
        verb, *words = line.split() or [""]
        wanted = [word.strip("'\"") for word in words if not word.startswith("-")]
        if verb != "install" or not wanted:
            say("in this sandbox pip can only install, by name and version: %pip install NAME …")
            return
        said, why = request_install({"install": wanted}, controller)
        if why:
            say(why)
        else:
            print(said or f"Already there: {', '.join(wanted)}")

    def before_run(info: Any) -> None:
        found = re.search(SCRIPT, info.raw_cell or "")
        if not found:
            return
        try:
            block = "".join(line[2:] or "\n" for line in found["block"].splitlines(keepends=True))
            if wanted := tomllib.loads(block).get("dependencies", []):
                said, why = request_install({"install": wanted}, controller)
                if why:
                    say(why)
                elif said and tell and not all("==" in each for each in wanted):
                    shell.display_pub.publish({"text/plain": f"nbagent: {said}"})
        except tomllib.TOMLDecodeError as error:
            say(f"the script block can't be read: {error}")

    def rewrite(lines: list[str]) -> list[str]:
        return re.sub(PIP, r"\1%pip install ", "".join(lines)).splitlines(keepends=True)

    def after_run(result: Any) -> None:
        is_block = re.fullmatch(rf"\s*(?:{SCRIPT[4:]})\s*", result.info.raw_cell or "", re.MULTILINE)
        if is_block and result.info.store_history:
            # Such a cell does not count: tracebacks name cells by number, and a notebook that was exported with one on
            # top must give the same outputs again.
            uncount(shell)

    import tomllib

    shell.register_magic_function(pip, "line", "pip")
    shell.events.register("pre_run_cell", before_run)
    shell.events.register("post_run_cell", after_run)
    shell.input_transformers_cleanup.insert(0, rewrite)


def uncount(shell: Any) -> None:
    """Give the next cell the number of the one that ran last, also in `In`."""
    shell.execution_count -= 1
    for inputs in (shell.history_manager.input_hist_parsed, shell.history_manager.input_hist_raw):
        del inputs[-1:]


def go_on(shell: Any) -> None:
    """Have a cell that missed a module go on, once it is there, at the import that failed: nothing runs twice.

    If something else failed, such as a call, all of the cell runs again, and draws the random numbers that it drew
    before: those of Python's and NumPy's own generator, and of generators that have a name. Else it would show others
    in a kernel that has the module from the start.

    `shell.nbagent_again` makes ready for that, also amid the request in which the code failed with an error; it returns
    how many statements need not run. A further request says so in its metadata, as `DONE`.
    """
    drawn: list[tuple[Any, Any]] = []
    failed, missed, done, first = "", "", 0, 0
    variables = Variables(shell.user_ns)

    class Rest(ast.NodeTransformer):
        """Leaves out what has run of a cell."""

        def visit(self, node: Any) -> Any:
            nonlocal first
            if first:
                node.body, first = node.body[first:], 0
            return node

    def before_run(info: Any) -> None:
        nonlocal first
        first = 0
        # Whatever the session's code has made of these modules, its cell runs.
        with contextlib.suppress(Exception):
            is_again = bool(missed) and info.raw_cell == missed
            first = int(shell.kernel.get_parent()["metadata"].get(DONE, 0)) if is_again else 0
            if first:
                return  # what it has drawn in former statements it draws once more if all of it runs again in the end
            if is_again:
                for restore, state in drawn:
                    restore(state)
            drawn[:] = generators(variables.values())

    def note(code: str, error: Any) -> None:
        nonlocal failed, missed, done
        failed, missed, done = code if error else "", "", 0
        if isinstance(error, ImportError):
            missed = code
            with contextlib.suppress(Exception):
                done = before_import(shell.transform_cell(code), error.__traceback__, shell.user_ns)

    def again(code: str = "", error: Any = None, *, counted: bool = True) -> int:
        nonlocal missed
        if error:
            note(code, error)
        missed = failed  # whatever error named the module
        if counted:
            # The code gets the same count again, as in a notebook that runs where the package is there.
            uncount(shell)
        shell.kernel.get_parent()["metadata"][DONE] = done
        return done

    shell.ast_transformers.append(Rest())
    shell.events.register("pre_run_cell", before_run)
    shell.events.register("post_run_cell", lambda result: note(result.info.raw_cell, result.error_in_exec))
    shell.nbagent_again = again


def generators(values: list[Any]) -> list[tuple[Any, Any]]:
    """What sets a generator of random numbers back, with its present state: Python's, NumPy's, and those in values."""
    numpy = sys.modules.get("numpy.random")
    found: list[tuple[Any, Any]] = [(random.setstate, random.getstate())]
    if numpy:
        found.append((numpy.set_state, numpy.get_state()))
    for each in {id(value): value for value in values}.values():
        # By its type alone: what code makes of its attributes is not asked. One that reads the machine has no state.
        with contextlib.suppress(Exception):
            if issubclass(type(each), random.Random):
                found.append((each.setstate, each.getstate()))
            elif numpy and type(each) is numpy.RandomState:
                found.append((each.set_state, each.get_state()))
            elif numpy and type(each) is numpy.Generator:
                bits = each.bit_generator
                found.append((partial(setattr, bits, "state"), bits.state))
    return found


class Variables:
    """The variables of cells, without those in which IPython keeps each input and output.

    Looking at them takes time as there are variables, however many cells have run.

    Args:
        names: The namespace of cells.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.own: dict[str, None] = {}
        self.last_kept = ""

    def values(self) -> list[Any]:
        """Their values; a value that has several names is there several times."""
        seen, self.last_kept = self.last_kept, ""
        for name in reversed(self.names):  # what is new stands at the end
            if not (isinstance(name, str) and re.fullmatch(KEPT, name)):
                self.own[name] = None
            elif name == seen:
                break
            else:
                self.last_kept = self.last_kept or name
        self.last_kept = self.last_kept or seen
        self.own = {name: None for name in self.own if name in self.names}
        return [self.names[name] for name in self.own]


def before_import(code: str, trace: Any, names: dict[str, Any]) -> int:
    """How many of a cell's statements had run when an import of its own failed; 0 if something else did.

    Args:
        code: Its code, as Python.
        trace: The traceback of the error.
        names: The namespace of cells.
    """
    while trace.tb_frame.f_globals is not names:
        trace = trace.tb_next
    line, _, column, _ = [*trace.tb_frame.f_code.co_positions()][trace.tb_lasti // 2]
    begun = [each for each in ast.parse(code).body if (each.lineno, each.col_offset) <= (line, column)]
    return len(begun) - 1 if isinstance(begun[-1], ast.Import | ast.ImportFrom) else 0


def say(text: str) -> None:
    """Tell the person something in the cell, apart from what it prints."""
    print(f"nbagent: {text}", file=sys.stderr)


def request_install(request: dict[str, Any], controller: str) -> tuple[str, str]:
    """Have the controller install packages; returns a sentence about what is new, and one on why there is nothing.

    Args:
        request: Requirements as `install`; or as `missing` the kind of an import error, its text, and code.
        controller: The path of its socket.
    """
    import importlib

    try:
        answer = ask(request, controller)
    except (OSError, ValueError) as error:
        answer = {"error": str(error)}
    importlib.invalidate_caches()
    if "error" in answer:
        return "", f"Not installed: {answer['error']}"
    names = ", ".join(f"{each['name']} {each['version']}" for each in answer["installed"])
    return f"Installed {names}." if names else "", ""


def ask(request: dict[str, Any], controller: str) -> dict[str, Any]:
    """Send the controller a request, such as an install; returns its answer.

    Raises:
        OSError: It doesn't answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(controller)
        connection.sendall(json.dumps(request).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            more = connection.recv(65536)
            if not more:
                raise OSError("The controller does not answer.")
            line += more
        answer: dict[str, Any] = json.loads(line)
        return answer


def print_once(shell: Any, notice: str) -> None:
    """Have the first cell print a notice before it runs."""

    def tell(_: Any) -> None:
        shell.events.unregister("pre_run_cell", tell)
        print(f"nbagent: {notice}", file=sys.stderr)

    shell.events.register("pre_run_cell", tell)


def point_to_agent(shell: Any, file: str) -> None:
    """Have `%agent` say where the assistant can be asked: from inside a sandbox no model is reached."""
    load = shell.magics_manager.magics["line"]["load_ext"]

    def agent(line: str, cell: str | None = None) -> None:
        """Say where the assistant can be asked."""
        del line, cell
        print(
            "nbagent: this kernel is in a sandbox, from which no model is reached. JupyterLab's panel asks\n"
            "the question of this cell, and the assistant's cells run here, with your variables.\n"
            "Elsewhere, ask in a terminal:\n"
            f"    nbagent chat --kernel {file}\n"
            f"or in another notebook: %agent --kernel {file} QUESTION"
        )

    def load_ext(line: str) -> Any:
        """Load an IPython extension; that of nbagent is here already."""
        return None if line.strip() == "nbagent" else load(line)

    def without_question(lines: list[str]) -> list[str]:
        # IPython takes a line that ends with a question mark for a wish for help.
        return re.sub(r"(?m)^([ \t]*%agent)[ \t].*$", r"\1", "".join(lines)).splitlines(keepends=True)

    shell.input_transformers_cleanup.insert(0, without_question)
    shell.register_magic_function(agent, "line_cell", "agent")
    shell.register_magic_function(load_ext, "line", "load_ext")


def refuse_shells(shell: Any) -> None:
    """Raise an error that says why where code asks IPython for a shell."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("This sandbox has no shell (its option allow_shell is off): use Python instead.")

    for name in ("system", "system_raw", "system_piped", "getoutput"):
        setattr(shell, name, refuse)
    for name in ("bash", "sh"):
        shell.register_magic_function(refuse, "cell", name)
