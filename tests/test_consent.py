"""Consent: which actions are asked about, what an answer does, and that no question hangs or is answered twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nbagent.consent import Action, Consent, Decision, Kind, Mode, Unattended, Verdict, of_cell
from nbagent.errors import InstallRefused, UsageError
from nbagent.events import ApprovalAsked, ApprovalGiven, Package

KINDS: tuple[Kind, ...] = ("cell", "shell", "edit", "install", "mcp", "budget")


def action(kind: Kind, what: str = "x", **more: Any) -> Action:
    """An action of some kind."""
    return Action(kind=kind, tool="t", what=what, **more)


PACKAGE = action("install", packages=("a==1",))


@pytest.mark.parametrize(
    ("mode", "free"),
    [
        ("ask", set()),
        ("auto-edit", {"cell", "edit"}),
        ("allow-list", set()),
        ("never-ask", {"cell", "shell", "edit", "install", "mcp"}),
    ],
)
def test_what_each_mode_asks_about(mode: str, free: set[Kind]) -> None:
    """More money or time is asked for in all of them."""
    consent = Consent(Mode.parse(mode), lambda _: None)
    assert {kind for kind in KINDS if consent.policy(action(kind))} == free


@pytest.mark.parametrize(
    ("code", "commands"),
    [
        ("1 + 1", ()),
        ("import os\nos.system('ls')", ()),
        ("!ls -l", ("ls -l",)),
        ("x = 1\nfiles = !ls /tmp", ("ls /tmp",)),
        ("!ls; rm -rf /", ("!ls; rm -rf /",)),
        ("!ls $(rm x)", ("!ls $(rm x)",)),
        ("%%bash\nls\nrm x", ("%%bash",)),
        ("%sx ls", ("%sx ls",)),
        ("!!ls", ("!!ls",)),
        ("  !a\n  !b", ("a", "b")),
        ("a != b", ()),
        ("print('!x')", ()),
    ],
)
def test_a_cell_that_hands_something_to_a_shell(code: str, commands: tuple[str, ...]) -> None:
    """Is of that kind, and each of its commands is known."""
    found = of_cell(code, tool="python", turn=1)
    assert (found.kind, found.commands) == ("shell" if commands else "cell", commands)
    assert found.code == code


@pytest.mark.parametrize(
    ("rules", "allowed", "asked"),
    [
        (["cell"], ["1 + 1"], ["!ls"]),
        (["cell", "shell:ls *", "shell:ls"], ["!ls -l", "!ls", "x = !ls a"], ["!lsof", "!ls; rm", "!rm", "%%sh\nls"]),
        (["shell:*"], [], ["!ls"]),
        (["cell", "shell:*"], ["!ls; rm x", "%%bash\nrm x"], []),
    ],
)
def test_rules_for_cells(rules: list[str], allowed: list[str], asked: list[str]) -> None:
    """All that a cell does must be allowed, and no pattern speaks for several programs in one line."""
    consent = Consent(Mode.ALLOW_LIST, lambda _: None, allow=rules)
    assert [code for code in allowed if not consent.policy(of_cell(code, tool="python", turn=1))] == []
    assert [code for code in asked if consent.policy(of_cell(code, tool="python", turn=1))] == []


def test_rules_for_packages_and_tools() -> None:
    """Each package of a request must be listed, by its name; tools go by patterns."""
    consent = Consent(Mode.ALLOW_LIST, lambda _: None, allow=["install:polars", "mcp:files__*"])
    assert consent.policy(action("install", packages=("polars==1.2",))) == "policy:allow-list"
    assert not consent.policy(action("install", packages=("polars==1.2", "evil==1")))
    assert not consent.policy(action("install", packages=("polars-evil==1",)))
    assert consent.policy(action("mcp", "files__read"))
    assert not consent.policy(action("mcp", "web__read"))


@pytest.mark.parametrize("rule", ["", "everything", "budget:*", "host:x"])
def test_rules_that_are_none(rule: str) -> None:
    """Are refused with the form of one."""
    with pytest.raises(UsageError, match="no rule"):
        Consent(Mode.ASK, lambda _: None, allow=[rule])


def test_a_mode_that_there_is_not() -> None:
    """The error lists those that there are."""
    with pytest.raises(UsageError, match="auto-edit"):
        Mode.parse("sometimes")


class Asked:
    """A consent with somebody who answers, and what it told."""

    def __init__(self, mode: Mode = Mode.ASK, **options: Any) -> None:
        self.told: list[Any] = []
        self.consent = Consent(mode, self.told.append, attended=True, **options)

    async def ask(self, wanted: Action, decision: Decision = "approve", **answer: Any) -> Verdict:
        """Ask, and answer."""
        asking = asyncio.create_task(self.consent.ask(wanted))
        await asyncio.sleep(0)
        if not asking.done():
            assert self.consent.answer(self.told[-1].id, decision, **answer)
        return await asking


async def test_a_question_and_its_answer_are_events() -> None:
    """With all that a person must see, and what came of it; an answered question can't be answered again."""
    asked = Asked()
    verdict = await asked.ask(action("cell", "1 + 1", code="1 + 1\n2", turn=3), "reject", reason="Not now")
    assert verdict == Verdict(decision="reject", by="person", reason="Not now")
    assert not verdict.granted
    assert asked.told == [
        ApprovalAsked(id="a1", turn=3, kind="cell", tool="t", what="1 + 1", code="1 + 1\n2"),
        ApprovalGiven(id="a1", turn=3, decision="reject", by="person", reason="Not now"),
    ]
    assert not asked.consent.answer("a1", "approve")
    assert not asked.consent.answer("a99", "approve")


async def test_an_edit() -> None:
    """Is a yes to other code; without code, or where there is none, it is refused and the question stays open."""
    asked = Asked()
    verdict = await asked.ask(action("cell", code="1"), "edit", code="2")
    assert (verdict.granted, verdict.code) == (True, "2")
    asking = asyncio.create_task(asked.consent.ask(action("install", packages=("a==1",))))
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="can't be edited"):
        asked.consent.answer("a2", "edit", code="x")
    assert asked.consent.answer("a2", "approve")
    assert (await asking).granted


@pytest.mark.parametrize(
    ("first", "same", "other"),
    [
        (of_cell("1", tool="p", turn=1), of_cell("2", tool="p", turn=1), of_cell("!ls", tool="p", turn=1)),
        (of_cell("!ls -l", tool="p", turn=1), of_cell("!ls", tool="p", turn=1), of_cell("!rm x", tool="p", turn=1)),
        (of_cell("!a; b", tool="p", turn=1), of_cell("!a; b", tool="p", turn=1), of_cell("!a; c", tool="p", turn=1)),
        (action("shell", "python /tmp/a.py"), action("shell", "python /tmp/b.py"), action("shell", "pythonx")),
        (PACKAGE, action("install", packages=("a==2",)), action("install", packages=("b==1",))),
        (action("mcp", "s__t*"), action("mcp", "s__t*"), action("mcp", "s__tx")),
        (action("edit", "/tmp/a"), action("edit", "/tmp/b"), action("cell")),
    ],
)  # fmt: skip
async def test_always(first: Action, same: Action, other: Action) -> None:
    """The same kind of thing isn't asked about again in this session; another is."""
    asked = Asked()
    await asked.ask(first, always=True)
    assert (await asked.consent.ask(same)).by == "policy:allow-list"
    assert not asked.consent.policy(other)


@pytest.mark.parametrize("unattended", ["reject", "approve"])
async def test_nobody_is_there(unattended: Unattended) -> None:
    """The policy for that answers at once, and both are told."""
    told: list[Any] = []
    consent = Consent(Mode.ASK, told.append, unattended=unattended)
    verdict = await asyncio.wait_for(consent.ask(action("cell")), 1)
    assert (verdict.decision, verdict.by) == (unattended, "policy:unattended")
    assert [type(each) for each in told] == [ApprovalAsked, ApprovalGiven]


async def test_a_question_that_is_stopped() -> None:
    """Is over: told as rejected, and closed."""
    asked = Asked()
    asking = asyncio.create_task(asked.consent.ask(action("cell")))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert asked.told[-1].by == "policy:stopped"
    assert not asked.consent.answer("a1", "approve")


async def test_packages() -> None:
    """Are named with their exact versions, and refused as an install is."""
    asked = Asked()
    packages = [Package("a", "1.0", "0" * 64), Package("b", "2.0", "0" * 64, requested=False)]
    asking = asyncio.create_task(asked.consent.install(packages, turn=1))
    await asyncio.sleep(0)
    assert asked.told[-1].packages == ["a==1.0", "b==2.0"]
    asked.consent.answer("a1", "reject", reason="Too new.")
    with pytest.raises(InstallRefused, match=r"a==1.0, b==2.0 is not approved. Too new\."):
        await asking


async def test_a_mode_that_is_changed() -> None:
    """Holds from the next action on."""
    asked = Asked(Mode.NEVER_ASK)
    assert (await asked.ask(action("shell"))).by == "policy:never-ask"
    asked.consent.mode = Mode.ASK
    assert (await asked.ask(action("shell"))).by == "person"
