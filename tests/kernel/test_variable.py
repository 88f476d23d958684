"""Variables that are held for a kernel, or fetched from it, whatever hostile code does about it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket

import pytest
from kernel.carry import DATA, Carry, run

from nbagent.core.errors import TransferError
from nbagent.core.policy import MIB
from nbagent.kernel.transfer.sandbox_paths import file_at
from nbagent.kernel.transfer.transfer import Carried
from nbagent.kernel.transfer.variable import fetch_variable
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.sandbox.paths import VARIABLES

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_memory_is_held_and_not_copied(carry: Carry) -> None:
    """It has its name until a cell that names it, whole, has ended; takes no room there, and can't be written to."""
    memory, place = SealedMemory(), file_at(f"{VARIABLES}/frame", carry.kernel.about)
    memory.add(DATA)
    memory.seal()
    held = await carry.transfer.hold(memory, place)
    memory.close()
    assert held == Carried(len(DATA), "")
    await run(carry.kernel, f"'{VARIABLES}/my_frame'")
    sha256 = hashlib.sha256(DATA).hexdigest()
    code = f"import hashlib; it = open('{VARIABLES}/frame', 'rb'); digest = hashlib.sha256(it.read()).hexdigest()\n"
    code += "used = os.statvfs('/workspace'); used = (used.f_blocks - used.f_bfree) * used.f_frsize\n"
    code += f"try: os.write(os.open('{VARIABLES}/frame', os.O_RDWR), b'x')\nexcept OSError as error: print(used, error)"
    used, told = (await run(carry.kernel, code)).split(" ", 1)
    assert int(used) < MIB
    assert "not permitted" in told or "denied" in told
    assert await run(carry.kernel, f"print(digest, os.path.lexists('{VARIABLES}/frame'))") == f"{sha256} False"


@pytest.mark.parametrize("way", ["socket", "bytes", "file"])
async def test_a_variable_is_fetched(carry: Carry, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As what it is, without room in the sandbox's folders where there is a socket; what can't be had is a sentence."""
    if way == "file":
        monkeypatch.setattr(carry.kernel, "byte_stream", lambda: None)
    if way == "bytes":  # as where no descriptor arrives
        monkeypatch.setattr(socket, "send_fds", lambda connection, buffers, _: connection.sendall(b"".join(buffers)))
    code = f"import random, numpy\narray = numpy.frombuffer(random.Random(1).randbytes({len(DATA)}), dtype='u1')"
    await run(carry.kernel, code + "\ntext = 'ä' * 3; odd = object()")
    for name, kind, content in (("array", "numpy.ndarray", DATA), ("text", "text", "äää".encode())):
        with contextlib.closing(SealedMemory()) as memory:
            assert await fetch_variable(carry.kernel, name, memory) == kind
            assert memory.path.read_bytes().endswith(content)
            assert memory.is_sealed
    assert (await carry.left() == []) is (way != "file")
    for name, told in (("none", "no such variable"), ("odd", "of the type object, which is no table")):
        with contextlib.closing(SealedMemory()) as memory, pytest.raises(TransferError, match=told):
            await fetch_variable(carry.kernel, name, memory)


FRAME = """
class Frame:
    def write_ipc(self, file, **_):
        {}
    def estimated_size(self):
        return {}
Frame.__module__, Frame.__name__ = 'polars', 'DataFrame'
frame = Frame()
"""


@pytest.mark.parametrize(
    ("does", "says", "told"),
    [
        ("file.truncate(2**40); file.seek(2**40)", 0, r"more than .*, the sandbox's memory"),
        ("global kept; kept = __import__('mmap').mmap(file.fileno(), 8)", 2**50, "holds on to what it wrote"),
        ("pass", -1, "can't be had"),
    ],
)
async def test_no_variable_is_taken_that_code_can_change_or_that_is_larger_than_the_sandbox(
    carry: Carry, does: str, says: int, told: str
) -> None:
    """Whatever code inside says of its size, and whatever it keeps."""
    await run(carry.kernel, FRAME.format(does, says))
    with contextlib.closing(SealedMemory()) as memory:
        with pytest.raises(TransferError, match=told):
            await fetch_variable(carry.kernel, "frame", memory)
        assert os.fstat(memory.descriptor).st_blocks * 512 <= 256 * MIB
    assert await run(carry.kernel, "print('alive')") == "alive"


async def test_code_cannot_write_into_what_was_taken(carry: Carry) -> None:
    """Though it keeps what it was lent open."""
    await run(carry.kernel, FRAME.format("file.write(b'x' * 9); global kept; kept = os.dup(file.fileno())", 9))
    with contextlib.closing(SealedMemory()) as memory:
        assert await fetch_variable(carry.kernel, "frame", memory) == "polars.DataFrame"
        told = await run(carry.kernel, "try: os.write(kept, b'y')\nexcept OSError as error: print(error)")
        assert "not permitted" in told
        assert memory.path.read_bytes() == b"x" * 9
