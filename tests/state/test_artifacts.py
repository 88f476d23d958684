"""Artifacts: content in files named by its hash, what is known of it in the store."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nbagent.core.errors import StoreError
from nbagent.state import StateManager, artifacts


def files(folder: Path) -> list[Path]:
    """The contents that are kept."""
    return sorted((folder / "artifacts").glob("??/*"))


async def test_an_artifact_comes_back_with_what_is_known_of_it(state: StateManager) -> None:
    """Name, type, size, hash and times are those of the content that was saved."""
    content = os.urandom(3_000_000)
    identifier = await state.save_artifact(
        agent_id="a.b", task_id="t", name="../../plot.png", content=content, content_type="image/png"
    )
    artifact, loaded = await state.load_artifact(identifier)
    assert loaded == content
    assert artifact.sha256 == hashlib.sha256(content).hexdigest()
    assert (artifact.name, artifact.content_type, artifact.size) == ("../../plot.png", "image/png", 3_000_000)
    assert artifact.expires is not None
    assert await state.list_artifacts() == [artifact]
    assert [path.name for path in files(state.folder)] == [artifact.sha256]
    # The database never saw it.
    items = await state.store.asearch(("nbagent", "artifacts"), limit=10)
    assert len(str([item.value for item in items])) < 1000


async def test_artifacts_are_listed_by_agent_and_task(state: StateManager) -> None:
    """In the order in which they were saved."""
    for agent, task in [("a", "1"), ("a", "2"), ("a.b", "1"), ('it\'s "b"', "1")]:
        await state.save_artifact(agent_id=agent, task_id=task, name=f"{agent}{task}", content=agent.encode())
    assert [found.name for found in await state.list_artifacts()] == ["a1", "a2", "a.b1", 'it\'s "b"1']
    assert [found.name for found in await state.list_artifacts(agent_id="a")] == ["a1", "a2"]
    assert [found.name for found in await state.list_artifacts(agent_id='it\'s "b"')] == ['it\'s "b"1']
    assert [found.name for found in await state.list_artifacts(agent_id="a", task_id="2")] == ["a2"]
    assert await state.list_artifacts(agent_id="%") == []


async def test_the_same_content_is_kept_once_and_as_long_as_needed(state: StateManager) -> None:
    """Deleting one artifact leaves the file to the other that has the same content."""
    first, second = [
        await state.save_artifact(agent_id="a", task_id="t", name=name, content=b"same") for name in ("one", "two")
    ]
    assert len(files(state.folder)) == 1
    assert await state.delete_artifact(first)
    assert not await state.delete_artifact(first)
    assert (await state.load_artifact(second))[1] == b"same"
    assert await state.delete_artifact(second)
    assert files(state.folder) == []
    with pytest.raises(StoreError, match="There is no artifact"):
        await state.load_artifact(second)


async def test_saving_and_deleting_the_same_content_at_once_loses_nothing(url: str, tmp_path: Path) -> None:
    """An artifact whose save has returned can be loaded, whatever is deleted meanwhile."""
    async with StateManager(tmp_path, url=url) as one, StateManager(tmp_path, url=url) as two:

        async def come_and_go(state: StateManager) -> None:
            for _ in range(15):
                identifier = await state.save_artifact(agent_id="a", task_id="t", name="n", content=b"same")
                assert (await state.load_artifact(identifier))[1] == b"same"
                await state.delete_artifact(identifier)

        await asyncio.gather(come_and_go(one), come_and_go(two))
        assert files(tmp_path) == []


async def test_an_artifact_expires_with_its_file(state: StateManager, go_on: Callable[[float], None]) -> None:
    """It is gone for its readers at once, and from the disk with the next sweep."""
    gone = await state.save_artifact(agent_id="a", task_id="t", name="n", content=b"short", ttl=200)
    kept = await state.save_artifact(agent_id="a", task_id="t", name="n", content=b"long", ttl=None)
    go_on(300)
    assert [found.id for found in await state.list_artifacts()] == [kept]
    with pytest.raises(StoreError, match="it expired"):
        await state.load_artifact(gone)
    assert len(files(state.folder)) == 2
    assert await state.sweep() == 1
    assert len(files(state.folder)) == 1
    assert (await state.load_artifact(kept))[1] == b"long"


async def test_content_that_was_changed_is_not_returned(tmp_path: Path) -> None:
    """A reader is told; whoever saves the content again mends it."""
    async with StateManager(tmp_path) as state:
        identifier = await state.save_artifact(agent_id="a", task_id="t", name="n", content=b"right")
        (path,) = files(tmp_path)
        path.write_bytes(b"wrong")
        with pytest.raises(StoreError, match="was changed"):
            await state.load_artifact(identifier)
        await state.save_artifact(agent_id="a", task_id="t", name="n", content=b"right")
        assert (await state.load_artifact(identifier))[1] == b"right"
        path.unlink()
        with pytest.raises(StoreError, match="share that folder"):
            await state.load_artifact(identifier)


async def test_content_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is in the sentence, and nothing is left on the disk."""
    monkeypatch.setattr(artifacts, "ARTIFACT_LIMIT", 10)
    async with StateManager(tmp_path) as state:
        with pytest.raises(StoreError, match="big has 11 bytes; an artifact may have 10"):
            await state.save_artifact(agent_id="a", task_id="t", name="big", content=b"x" * 11)
        assert files(tmp_path) == []


async def test_an_artifacts_id_is_no_path(tmp_path: Path) -> None:
    """What a model makes up as an id reaches no file."""
    (tmp_path / "secret").write_text("secret")
    async with StateManager(tmp_path / "s") as state:
        for identifier in ("../../secret", "/etc/passwd", "..", "secret"):
            with pytest.raises(StoreError, match="There is no artifact"):
                await state.load_artifact(identifier)
