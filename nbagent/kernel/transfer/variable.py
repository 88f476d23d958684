"""Fetches a variable of the kernel's namespace: over a socket as it is written, or by a file of the sandbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import msgspec

from nbagent.core.errors import TransferError, TransferLimit
from nbagent.core.policy import MIB
from nbagent.core.text import cut, size_of, visible
from nbagent.kernel import inside_calls
from nbagent.kernel.transfer.sandbox_paths import file_at
from nbagent.kernel.transfer.transfer import REQUEST_SECONDS, Transfer, beside
from nbagent.sandbox.paths import VARIABLES

if TYPE_CHECKING:
    from nbagent.kernel.kernel import Kernel

WRITE_SECONDS = 120.0
"""Seconds that the kernel may take to write the variable."""


class WrittenVariable(msgspec.Struct, frozen=True, kw_only=True):
    """What the sandbox says of a variable that it has written.

    Attributes:
        kind: What it is: `polars.DataFrame`, …, `text` or `data`.
        path: The file in the sandbox; empty if it went over a socket.
        missing: Why it can't be had; empty if it can.
    """

    kind: Annotated[str, msgspec.Meta(max_length=40)] = ""
    path: Annotated[str, msgspec.Meta(max_length=400)] = ""
    missing: str = ""


async def fetch_variable(kernel: Kernel, name: str, take: Callable[[bytes], object]) -> tuple[str, int]:
    """Give a variable's contents to `take` piece by piece.

    Returns:
        What it is, as the sandbox says, and how many bytes came.

    Raises:
        TransferLimit: It is larger than the sandbox's memory.
        TransferError: There is no such variable, it can't be written, or that took too long.
        Exception: What `take` raises.
    """
    transfer, size = Transfer(kernel), 0
    bound = kernel.spec.trust.limits.memory_mb * MIB

    def took(chunk: bytes) -> None:
        nonlocal size
        size += len(chunk)
        if size > bound:
            raise TransferLimit(f"The variable {name} has more than {size_of(bound)}, the sandbox's memory.")
        take(chunk)

    stream = transfer.stream()
    arguments = [name, VARIABLES, stream.address if stream else ""]
    writing = kernel.evaluate(inside_calls.source_of("variables_inside.py"), arguments, seconds=WRITE_SECONDS)
    if stream is None:
        said = _said(await writing, name)
        carried = await transfer.download(file_at(said.path, kernel.about), take)
        return said.kind, carried.size
    receiving = stream.receive(bound + 1, took, seconds=REQUEST_SECONDS)
    return _said(await beside(stream, writing, receiving), name).kind, size


def _said(said: object, name: str) -> WrittenVariable:
    try:
        found = msgspec.convert(said, WrittenVariable)
    except msgspec.ValidationError:
        found = WrittenVariable(missing="the kernel gave no answer")
    if found.missing:
        raise TransferError(
            f"The variable {name} can't be had from the sandbox: {cut(visible(found.missing), 300)}.",
            mend="Give a table, an array, text or plain data.",
        )
    return found
