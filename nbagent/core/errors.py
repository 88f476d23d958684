"""The errors that nbagent raises, as a tree.

An exception raised by code in a cell is an *output* of that cell, not one of these errors. Each error of
the tree says what happened, what the person can do about it (`mend`), and with which exit code a command ends.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

log = logging.getLogger(__name__)


class NbagentError(Exception):
    """An error that is reported to a person in one sentence, with what to do about it.

    Args:
        message: What happened, one sentence.
        mend: What the person can do about it; empty if the message says it already.
        elsewhere: The mend for a person who uses the sandbox in another program, such as JupyterLab, and so has no
            options of nbagent's; `mend` by default.
    """

    exit_code = 3

    def __init__(self, message: str, *, mend: str = "", elsewhere: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend
        self.elsewhere = elsewhere or mend

    def __str__(self) -> str:
        return f"{self.message} {self.mend}".strip()


class UsageError(NbagentError):
    """The request itself is wrong: an option, a name, an empty question."""

    exit_code = 2


class DataError(UsageError):
    """A data file or folder that is missing, unreadable or ambiguous."""


class ModelError(UsageError):
    """A model that can't be used: an unknown provider, no key, an extra that isn't installed."""


class ReplayError(UsageError):
    """A replay file that can't be read (the message names the line), or that has no reply left."""


class QuestionRuns(UsageError):
    """A session that is to be asked has a question that is not answered yet."""


class SandboxError(NbagentError):
    """The isolation, the kernel or its environment failed; the code is not to blame."""


class EngineUnavailable(SandboxError):
    """No engine works here, or the one that was asked for doesn't."""


class LimitUnenforceable(SandboxError):
    """A limit that the engine can't enforce on this machine, and that nobody accepted by name."""


class EnvironmentMissing(SandboxError):
    """The kernel image or the kernel environment is not there and could not be made."""


class KernelStartError(SandboxError):
    """The kernel did not come up; the message ends with the tail of what it printed."""


class KernelDied(SandboxError):
    """The kernel died and could not be brought back."""


class TransferError(NbagentError):
    """A file was not carried into or out of the sandbox; no part of it is left at its destination."""

    exit_code = 1


class TransferLimit(TransferError):
    """A file whose path, kind, size or number is not allowed; the message names the limit."""


class InstallError(NbagentError):
    """A package was not installed; the environment is as it was."""

    exit_code = 1


class InstallRefused(InstallError):
    """A package that policy forbids, or a request that isn't a plain requirement."""


class ModelCallError(NbagentError):
    """The model's provider failed while answering."""

    exit_code = 1


class ForgeError(NbagentError):
    """A tool was not made, or one of the library can't be used.

    Args:
        message: What happened.
        mend: What can be done about it.
        output: What its tests or its code printed, shortened; untrusted.
    """

    exit_code = 1

    def __init__(self, message: str, *, mend: str = "", output: str = "") -> None:
        super().__init__(message, mend=mend)
        self.output = output


class McpError(NbagentError):
    """A server of tools (MCP) can't be started, was lost, or doesn't answer; the others go on."""

    exit_code = 1


class StoreError(NbagentError):
    """The session's folder or a notebook can't be written."""

    exit_code = 2


class OwnerGone(StoreError):
    """The process that owned a session has ended; its log is whole, and the session can be resumed."""


class NewerLog(StoreError):
    """A session's log has an event of a type that this version of nbagent doesn't know."""


@contextlib.contextmanager
def contained(what: str) -> Iterator[None]:
    """Catch bugs of nbagent and log them, so that they don't end a question.

    To be used around code that only reads text of others, such as outputs and answers. `NbagentError` and `OSError` (a
    closed output, a full disk) are not caught. A test fails if an error is contained that it doesn't expect.

    Args:
        what: The consequence, as a sentence without its full stop, such as `A widget is left out of the notebook`.
    """
    try:
        yield
    except (NbagentError, OSError):
        raise
    except Exception as error:
        # The error's message may contain the text, which others chose and which may be long.
        told = f"{type(error).__name__}: {error}"[:200].encode("ascii", "replace").decode()
        log.error("%s (%r). Please report this.", what, told)
        log.debug("Where it failed:", exc_info=True)
