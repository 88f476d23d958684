"""Carries bytes into a kernel's sandbox and out of it, for the tests of transfers."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator
from typing import Any

from nbagent.core.policy import MIB
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer.sandbox_paths import file_at
from nbagent.kernel.transfer.transfer import Carried, Transfer

DATA = random.Random(1).randbytes(9 * MIB + 7)  # noqa: S311 - it need not be secret


async def run(kernel: Kernel, code: str) -> str:
    """What code prints that doesn't fail."""
    cell = await kernel.run(code)
    assert cell.success, cell.outputs
    return cell.text


class Carry:
    """Carries bytes to a path and from it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.transfer = Transfer(kernel)

    async def up(self, content: bytes, path: str, *, size: int | None = None, unpack: bool = False) -> Carried:
        """Upload."""

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(content), 3_000_000):
                yield content[start : start + 3_000_000]

        place = file_at(path, self.kernel.about)
        return await self.transfer.upload(pieces(), place, size=size, unpack=unpack)

    async def down(self, path: str, **more: Any) -> bytes:
        """Download."""
        content = bytearray()
        carried = await self.transfer.download(file_at(path, self.kernel.about), content.extend, **more)
        assert (carried.size, carried.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        return bytes(content)

    async def left(self) -> list[str]:
        """What there is under /workspace, hidden files too."""
        names = await self.kernel.run("sorted(os.path.join(at, n) for at, d, f in os.walk('.') for n in d + f)")
        found: list[str] = eval(names.text)  # noqa: S307 - a list of names that the test made
        return found
