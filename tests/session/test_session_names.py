"""Names of packages as a way out of a session: its cells, its model, its tools, and what a person says to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from packages.index import Index

from nbagent import Session
from nbagent.core.errors import ForgeError, InstallRefused
from nbagent.core.events import ApprovalAsked, ApprovalGiven, IndexAsked, Record
from tests.program import call, nbagent, replies

LEAK = "for n in range(1000): get_ipython().run_line_magic('pip', f'install leak-{n}')"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index that uv takes for the only one."""
    made = Index()
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{made.url}/simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield made
    made.close()


def heard(index: Index) -> list[str]:
    """The names that the index was asked for."""
    return list(dict.fromkeys(path.split("/")[2] for path in index.requests if path.startswith("/simple/")))


def session(**more: object) -> Session:
    """A session without a model."""
    return Session(engine="bubblewrap", mcp=False, **more)  # type: ignore[arg-type]


async def test_a_session_has_one_allowance(index: Index) -> None:
    """Its cells, the installs of its model and of MCP clients, its tools, and those of another process later on."""
    index.add("asked-by-name")
    first = session(forge=True)
    async with first:
        await first.run(LEAK.replace("1000", "7"))
        for number in range(100):
            with pytest.raises(InstallRefused):
                await first.runs.install([f"model-{number}"])
        with pytest.raises(ForgeError, match="may for no more"):
            await first._started()._forge.create(  # type: ignore[union-attr]
                "tool", description="x", code="def tool() -> int:\n    return 1\n",
                tests="from tool import tool\ndef test_it():\n    assert tool() == 1\n", dependencies=["forged"],
            )  # fmt: skip
    async with await Session.connect(first.id) as later:
        await later.run(LEAK.replace("leak", "later"))
        assert await later.install(["asked-by-name"])
    expected = [*(f"leak-{number}" for number in range(7)), "model-0", "model-1", "model-2"]
    assert heard(index) == [*expected, "asked-by-name"]


async def test_a_person_is_asked_for_more(index: Index) -> None:
    """With every name; what they allow is asked for, what they reject is not, and an unattended yes is none."""
    index.add("wanted")
    asked: list[ApprovalAsked] = []
    attended = session(attended=True, security={"unknown_names": 0})

    def answer(record: Record) -> None:
        if isinstance(record.event, ApprovalAsked):
            asked.append(record.event)
            attended.approve(record.event.id, "approve" if "wanted" in record.event.packages else "reject")

    async with attended:
        attended.follow(answer)
        assert (await attended.run("import wanted; wanted.version")).text == "'1.0'"
        cell = await attended.run("%pip install secret-1 secret-2")
        assert "not approved" in str(cell.outputs) or "Not installed" in str(cell.outputs)
    assert [(each.kind, each.packages, each.rules) for each in asked] == [
        ("names", ["wanted"], []),
        ("names", ["secret-1", "secret-2"], []),
    ]
    async with session(unattended="approve", security={"unknown_names": 0}) as alone:
        told: list[Record] = []
        alone.follow(told.append)
        assert "--unknown-names" in str((await alone.run("%pip install nobody-there")).outputs)
    assert [each.event.by for each in told if isinstance(each.event, ApprovalGiven)] == ["policy:unattended"]
    assert not [each for each in told if isinstance(each.event, IndexAsked)]
    assert heard(index) == ["wanted"]


async def test_what_a_persons_script_declares_is_theirs(index: Index) -> None:
    """A notebook names all that it needs, in exact versions; nothing that its code finds out can be among that."""
    names = [f"rare-{number}" for number in range(15)]
    for name in names:
        index.add(name)
    wanted = ", ".join(f'"{name}==1.0"' for name in names)
    async with session(security={"unknown_names": 0}) as own:
        cell = await own.run(f"# /// script\n# dependencies = [{wanted}]\n# ///\nimport rare_7; rare_7.version")
        assert cell.text == "'1.0'"
        written = "get_ipython().run_cell('# /// script\\n# dependencies = [\"made-up\"]\\n# ///\\n1')"
        assert "--unknown-names" in str((await own.run(written)).outputs)
    assert sorted(heard(index)) == sorted(names)


def test_the_option_and_the_audit(index: Index, tmp_path: Path) -> None:
    """A person gives more, or none, at the command line; the audit log has each name."""
    model = replies(tmp_path / "r.jsonl", call("%pip install one-name"), call("%pip install two-names"), "Done.")
    state = {"NBAGENT_STATE_DIR": str(tmp_path / "state"), "UV_DEFAULT_INDEX": f"{index.url}/simple"}
    more = {**state, "UV_CACHE_DIR": str(tmp_path / "uv"), "UV_HTTP_RETRIES": "0", "NO_PROXY": "127.0.0.1"}
    words = ["run", "?", "-m", model, "-e", "bubblewrap", "--json", "--no-mcp", "--unknown-names", "1"]
    assert nbagent(*words, cwd=tmp_path, **more).code == 0
    (folder,) = (tmp_path / "state" / "sessions").iterdir()
    shown = nbagent("audit", "show", folder.name, cwd=tmp_path, **more).out
    assert "index asked" in shown
    assert "one-name" in shown
    assert heard(index) == ["one-name"]
