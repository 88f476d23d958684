"""The tools `sandbox_exec`, `sandbox_write_file` and `sandbox_edit_file` for the model; `scripts.py` does the work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.tools import BaseTool, tool
from pydantic import BeforeValidator

from nbagent.agent.tools.scripts import RUN_SECONDS, Response, edit_file, execute, is_failure, words_of, write_file

if TYPE_CHECKING:
    from nbagent.agent.ports import KernelPort

Purpose = Annotated[str, "Why you do this, in a few words; it becomes a comment in the notebook."]
SandboxPath = Annotated[str, "An absolute path below /tmp or /workspace."]


def make_sandbox_tools(kernel: KernelPort) -> list[BaseTool]:
    """The three tools."""

    @tool(response_format="content_and_artifact")
    async def sandbox_exec(
        command: Annotated[
            list[str],
            BeforeValidator(words_of),
            "The program and its words, such as ['python', '/tmp/analysis.py'].",
        ],
        timeout: Annotated[int, "Seconds that it may run, at most 300."] = RUN_SECONDS,  # noqa: ASYNC109
        reasoning_trace: Purpose = "",
    ) -> tuple[str, Any]:
        """Run a program in the sandbox: a script that you wrote, or a Unix command such as head, grep, wc or ls.

        Returns its exit code, what it printed (10 KB a stream, with a flag where it was cut), and the files in
        /tmp/output, which the person gets. No shell reads the command; for pipes use ['sh', '-c', '…']. For analysis in
        steps, with variables that stay and figures that show by themselves, use the tool python instead.
        """
        return _result(await execute(kernel, command, timeout=timeout, why=reasoning_trace))

    @tool(response_format="content_and_artifact")
    async def sandbox_write_file(
        file_path: SandboxPath,
        content: Annotated[str, "All of its text, at most 5 MB."],
        reasoning_trace: Purpose = "",
    ) -> tuple[str, Any]:
        """Create or overwrite a text file in the sandbox, such as a script for sandbox_exec."""
        return _result(await write_file(kernel, file_path, content, why=reasoning_trace))

    @tool(response_format="content_and_artifact")
    async def sandbox_edit_file(
        file_path: SandboxPath,
        old_string: Annotated[str, "What stands there now, exactly, and only once in the file."],
        new_string: Annotated[str, "What is to stand there."],
        reasoning_trace: Purpose = "",
    ) -> tuple[str, Any]:
        """Change a file in the sandbox by replacing a text that stands exactly once in it."""
        return _result(await edit_file(kernel, file_path, old_string, new_string, why=reasoning_trace))

    return [sandbox_exec, sandbox_write_file, sandbox_edit_file]


def _result(response: Response) -> tuple[str, dict[str, str]]:
    """What the model reads, and whether it went well."""
    return json.dumps(response, ensure_ascii=False), {"status": "error" if is_failure(response) else "ok"}
