"""A variable of the kernel's namespace, written into a file of the sandbox by which it can be fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from nbagent.core.errors import TransferError
from nbagent.core.text import cut, visible
from nbagent.kernel import inside_calls
from nbagent.sandbox.paths import VARIABLES

if TYPE_CHECKING:
    from nbagent.kernel.kernel import Kernel

WRITE_SECONDS = 120.0
"""Seconds that the kernel may take to write the file."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A variable, in a file of the sandbox, as the sandbox says.

    Attributes:
        kind: What it is: `polars.DataFrame`, …, `text` or `data`.
        path: The file in the sandbox.
        size: Bytes of it.
        missing: Why it can't be had; empty if it can.
    """

    kind: Annotated[str, msgspec.Meta(max_length=40)] = ""
    path: Annotated[str, msgspec.Meta(max_length=400)] = ""
    size: Annotated[int, msgspec.Meta(ge=0)] = 0
    missing: str = ""


async def write_variable(kernel: Kernel, name: str) -> Written:
    """Have a variable written into a file of the sandbox.

    Raises:
        TransferError: There is no such variable, it can't be written, or that took too long.
    """
    source = inside_calls.source_of("variables_inside.py")
    said = await kernel.evaluate(source, [name, VARIABLES], seconds=WRITE_SECONDS)
    try:
        written = msgspec.convert(said, Written)
    except msgspec.ValidationError:
        written = Written(missing="the kernel gave no answer")
    if written.missing or not written.path.startswith(f"{VARIABLES}/"):
        why = cut(visible(written.missing), 300) or "the kernel named no file"
        raise TransferError(
            f"The variable {name} can't be had from the sandbox: {why}.",
            mend="Give a table, an array, text or plain data.",
        )
    return written
