"""The variables of notebooks that a session holds: how many, and each content once."""

from __future__ import annotations

import hashlib

import pytest

from nbagent.core.errors import TransferError
from nbagent.core.events import DataHashed, Event
from nbagent.kernel.transfer.sandbox_paths import SandboxPath
from nbagent.kernel.transfer.transfer import Carried, Transfer
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.sandbox.contract import About
from nbagent.sandbox.paths import VARIABLES
from nbagent.session.files import given_variables
from nbagent.session.files.given_variables import Given, free_name


def hold(held: Given, path: str, content: bytes, sha256: str) -> None:
    """Have some bytes held."""
    memory = SealedMemory()
    memory.add(content)
    memory.seal()
    held.hold(path, memory, sha256=sha256)
    memory.close()


async def test_the_same_content_is_held_once_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes and in number; hashed at once or after a while."""
    monkeypatch.setattr(given_variables, "MAX_HELD", 3)
    told: list[Event] = []
    held, paths = Given(25, told.append), [f"{VARIABLES}/{each}" for each in "abcdefg"]
    cells = {number: f"open('{path}')" for number, path in enumerate(paths)}
    for path in paths[:4]:
        hold(held, path, bytes(10), "" if path == paths[2] else hashlib.sha256(bytes(10)).hexdigest())
    await held.hashed()
    assert told == [DataHashed(hashes={paths[2]: hashlib.sha256(bytes(10)).hexdigest()})]
    assert held.missing(cells, paths[:4]) == [], "all four are one"
    hold(held, paths[4], b"0123456789", "4")
    hold(held, paths[5], b"12345", "5")
    assert held.missing(cells, paths[:6]) == []
    hold(held, paths[6], b"1", "6")
    assert held.missing(cells, paths) == [0, 1, 2, 3], "as far as the one that they share is too much"
    held.close()
    assert held.missing(cells, paths) == [*range(7)]


class Full(Transfer):
    """Moves nothing into its sandbox."""

    def __init__(self) -> None:
        pass

    async def hold(self, memory: SealedMemory, place: SandboxPath) -> Carried | None:
        raise TransferError(f"{memory.size} bytes do not fit at {place.path}.")


async def test_what_cannot_be_put_back_is_named() -> None:
    """Nothing is raised, so that all other cells run again."""
    held, paths = Given(1000, print), [f"{VARIABLES}/{each}" for each in "ab"]
    for path in paths:
        hold(held, path, path.encode(), path)
    left = await held.put_back({1: f"open('{paths[0]}')", 2: f"open('{paths[1]}')"}, Full(), About(name="sandbox"))
    assert [each.path for each in left] == paths
    assert "do not fit" in left[1].why
    held.close()


def test_a_name_is_used_once() -> None:
    """It stays in its folder."""
    taken = {"/v/a.npy", "/v/a-2.npy", "/v/b/a.npy"}
    names = ["/v/a.npy", "/v/b.npy", "/v/b/a.npy"]
    assert [free_name(each, taken) for each in names] == ["/v/a-3.npy", "/v/b.npy", "/v/b/a-2.npy"]
