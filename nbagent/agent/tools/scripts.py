"""What the tools `sandbox_exec`, `sandbox_write_file` and `sandbox_edit_file` do, for a model or for an MCP client.

Each call that does something is a cell of the notebook (`script_cells.py`), so that it can be run again. Names,
parameters, response fields, limits, error texts and hints are those of the tools' specification.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbagent.agent.cell_view import cut_middle
from nbagent.agent.tools import script_cells
from nbagent.core.errors import InstallError, TransferError, TransferLimit
from nbagent.core.events import Cell, Output
from nbagent.core.text import plain
from nbagent.kernel.transfer import sandbox_paths
from nbagent.sandbox.untrusted import parse

if TYPE_CHECKING:
    from nbagent.agent.ports import KernelPort

RUN_SECONDS = 60
"""Seconds that a command may run by default."""
MOST_SECONDS = 300
MAX_CONTENT = 5 * 1024 * 1024
"""Bytes of a file that is written."""
STREAM_BYTES = 10 * 1024
"""Bytes of each stream in a response."""
MAX_INSTALLS = 5
"""Modules that are installed for one call."""

TIMED_OUT, CANT_RUN, NOT_FOUND, INTERRUPTED, KILLED = 124, 126, 127, 130, 137
"""Exit codes, as a shell gives them, of programs that were stopped or could not start."""
_CODES = {"timeout": TIMED_OUT, "interrupted": INTERRUPTED, "died": KILLED}
_SHELL = re.compile(r"[;&|<>$`*?~\n]")
"""Characters for which a command needs a shell."""
_MISSING = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE)

DONE = "Code executed successfully. {count} output files created. Consider using 'complete' to present results."
NO_FILES = "Code executed but no outputs in /tmp/output/. Verify script saves results."
FAILED = "Execution failed. Review stderr and use sandbox_edit_file to fix errors."
WRITTEN = "File written successfully. Use sandbox_exec to run it."
CLAMPED = "It ran with a timeout of {seconds} s: {asked} s is outside of what is allowed, 1 to 300 s."
INVALID_PATH = "Invalid path. Use /tmp/ or /workspace/ only."
EDITED = "File edited successfully. Re-run with sandbox_exec."
NOT_UNIQUE = "Edit failed - old_string not unique. Include more surrounding context."
NOT_THERE = "Edit failed - old_string not found. Read file first with sandbox_exec."

Response = dict[str, Any]


def words_of(command: object) -> list[str]:
    """The words of a command, which models send as a list, as a list in JSON, or as a line for a shell."""
    if isinstance(command, list):
        return [str(each) for each in command]
    text = str(command)
    with contextlib.suppress(ValueError):
        if isinstance(found := parse(text, limit=MAX_CONTENT), list):
            return [str(each) for each in found]
    with contextlib.suppress(ValueError):
        if not _SHELL.search(text):
            return shlex.split(text)
    return ["sh", "-c", text]


async def execute(kernel: KernelPort, command: Sequence[str], *, timeout: int = RUN_SECONDS, why: str = "") -> Response:  # noqa: ASYNC109
    """Run a program to its end or limit; after installing a module that a Python script lacks, run it again.

    Args:
        kernel: Where it runs.
        command: The program and its words.
        timeout: Seconds, at most 300; the response has a note if it was changed.
        why: Its purpose, for the reader of the notebook.
    """
    seconds = min(max(timeout, 1), MOST_SECONDS)
    code = script_cells.run_program(command, why=why)
    for _ in range(MAX_INSTALLS + 1):
        cell = await kernel.run_cell(code, timeout=seconds, tool="sandbox_exec")
        response = _response(cell, seconds=seconds)
        missing = _MISSING.findall(response["stderr"]) if response["exit_code"] == 1 else []
        if not missing:
            break
        try:
            await kernel.install_module(missing[-1])
        except InstallError as error:
            response["stderr"] += f"\nNot installed: {error}"
            break
    names, total = await kernel.output_files(limit=20)
    response |= {"output_files": names, "total_output_files": total, "execution_time": round(cell.duration, 3)}
    notes = [CLAMPED.format(asked=timeout, seconds=seconds)] if seconds != timeout else []
    notes += [f"State lost: {plain(cell.state_lost)}"] if cell.state_lost else []
    response |= {"note": " ".join(notes)} if notes else {}
    response["hint"] = FAILED if response["exit_code"] else DONE.format(count=total) if total else NO_FILES
    return response


async def write_file(kernel: KernelPort, file_path: str, content: str, *, why: str = "") -> Response:
    """Create or overwrite a file below /tmp or /workspace."""
    try:
        path = sandbox_paths.clean_path(file_path)
        size = len(content.encode())
    except TransferLimit as error:
        return _refusal(file_path, str(error), INVALID_PATH)
    except UnicodeEncodeError:
        return _refusal(file_path, "The content has half of a surrogate pair, which no file holds as text.")
    if path in sandbox_paths.ROOTS:
        return _refusal(file_path, sandbox_paths.INVALID, INVALID_PATH)
    if size > MAX_CONTENT:
        return _refusal(file_path, f"Content too large: {size:,} bytes, at most {MAX_CONTENT:,} (5 MB).")
    cell = await kernel.run_cell(script_cells.write_file(path, content, why=why), tool="sandbox_write_file")
    if cell.status != "ok":
        return _refusal(file_path, _failure(cell))
    return {"success": True, "file_path": file_path, "bytes_written": size, "hint": WRITTEN}


async def edit_file(kernel: KernelPort, file_path: str, old_string: str, new_string: str, *, why: str = "") -> Response:
    """Replace a text that stands exactly once in a file."""
    try:
        path = sandbox_paths.clean_path(file_path)
        if not old_string:
            return _refusal(file_path, "old_string is empty.", NOT_THERE)
        found = await kernel.count_in_file(path, old_string)
    except TransferLimit as error:
        return _refusal(file_path, str(error), INVALID_PATH)
    except TransferError as error:
        return _refusal(file_path, str(error))
    if found == 0:
        return _refusal(file_path, "old_string not found", NOT_THERE)
    if found > 1:
        reason = f"old_string found {found} times - not unique. Include more context."
        return _refusal(file_path, reason, NOT_UNIQUE)
    cell = await kernel.run_cell(
        script_cells.edit_file(path, old_string, new_string, why=why), tool="sandbox_edit_file"
    )
    if cell.status != "ok":
        return _refusal(file_path, _failure(cell))
    return {"success": True, "file_path": file_path, "hint": EDITED}


def _refusal(file_path: str, error: str, hint: str = "") -> Response:
    response = {"success": False, "error": error, "file_path": file_path}
    return response | {"hint": hint} if hint else response


def _response(cell: Cell, *, seconds: int) -> Response:
    """The response for a program, by its cell."""
    streams = {"stdout": "", "stderr": ""}
    code, problem = _CODES.get(cell.status, 0), ""
    for output in cell.outputs:
        kind = output.get("output_type")
        if kind == "stream":
            streams[str(output.get("name"))] += str(output.get("text", ""))
        elif kind == "execute_result" and cell.status == "ok":
            code = _exit_code(output)
        elif kind == "error" and cell.status == "error":
            code = NOT_FOUND if output.get("ename") == "FileNotFoundError" else CANT_RUN
            problem = f"{output.get('ename')}: {output.get('evalue')}"
    if cell.status == "timeout":
        problem = f"Timed out after {seconds} s."
    elif cell.status in _CODES:
        problem = f"The program was stopped. {cell.note}"
    if problem:
        streams["stderr"] = f"{streams['stderr'].rstrip()}\n{problem}".lstrip("\n")
    response: Response = {"exit_code": code}
    cuts = {name: cut_middle(plain(text), limit=STREAM_BYTES) for name, text in streams.items()}
    response |= {name: text for name, (text, _) in cuts.items()}
    return response | {f"{name}_truncated": truncated for name, (_, truncated) in cuts.items()}


def _exit_code(output: Output) -> int:
    """The exit code of a program, as a shell gives it: above 128 for a signal."""
    value = str(output.get("data", {}).get("text/plain", ""))
    code = int(value) if re.fullmatch(r"-?\d{1,3}", value) else 0
    return code if code >= 0 else 128 - code


def _failure(cell: Cell) -> str:
    """Why a cell failed, in a sentence."""
    for output in cell.outputs:
        if output.get("output_type") == "error":
            return plain(f"{output.get('ename')}: {output.get('evalue')}")
    return plain(cell.note) or "The cell was stopped."


def is_failure(response: Response) -> bool:
    """Whether a call failed."""
    return response.get("exit_code", 0) != 0 or not response.get("success", True)
