"""Fetches a variable of the kernel's namespace: into memory that the kernel is lent, or by a file of the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from nbagent.core.errors import TransferError, TransferLimit
from nbagent.core.policy import MIB
from nbagent.core.text import cut, size_of, visible
from nbagent.kernel import inside_calls
from nbagent.kernel.transfer.over_socket import beside
from nbagent.kernel.transfer.sandbox_paths import file_at
from nbagent.kernel.transfer.transfer import Transfer
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.sandbox.paths import VARIABLES

if TYPE_CHECKING:
    from nbagent.kernel.kernel import Kernel

WRITE_SECONDS = 300.0
"""Seconds that the kernel may take to write the variable."""


class WrittenVariable(msgspec.Struct, frozen=True, kw_only=True):
    """What the sandbox says of a variable that it has written.

    Attributes:
        kind: What it is: `polars.DataFrame`, …, `text` or `data`.
        path: The file in the sandbox; empty if it is in the memory.
        missing: Why it can't be had; empty if it can.
    """

    kind: Annotated[str, msgspec.Meta(max_length=40)] = ""
    path: Annotated[str, msgspec.Meta(max_length=400)] = ""
    missing: str = ""


async def fetch_variable(kernel: Kernel, name: str, memory: SealedMemory) -> str:
    """Fill memory with a variable's contents, and seal it.

    Returns:
        What it is, as the sandbox says.

    Raises:
        TransferLimit: It is larger than the sandbox's memory.
        TransferError: There is no such variable, it can't be written, or that took too long.
    """
    transfer = Transfer(kernel)
    bound = kernel.spec.trust.limits.memory_mb * MIB
    stream = transfer.stream()
    arguments = [name, VARIABLES, stream.address if stream else ""]
    writing = kernel.evaluate(inside_calls.source_of("variables_inside.py"), arguments, seconds=WRITE_SECONDS)
    if stream is None:
        said = _said(await writing, name)
        await transfer.download(file_at(said.path, kernel.about), memory.add)
    else:
        lending = stream.lend(memory, bound, seconds=WRITE_SECONDS)
        said = _said(await beside(stream, writing, lending), name)
    try:
        memory.seal()
    except OSError as error:
        told = f"The variable {name} can't be had: code in the sandbox holds on to what it wrote."
        raise TransferError(told) from error
    if memory.size > bound:
        raise TransferLimit(f"The variable {name} has more than {size_of(bound)}, the sandbox's memory.")
    return said.kind


def _said(said: object, name: str) -> WrittenVariable:
    try:
        found = msgspec.convert(said, WrittenVariable)
    except msgspec.ValidationError:
        found = WrittenVariable(missing="the kernel gave no answer")
    if found.missing:
        raise TransferError(
            f"The variable {name} can't be had from the sandbox: {cut(visible(found.missing), 300).rstrip('.')}.",
            mend="Have it made a table, an array, text or plain data.",
        )
    return found
