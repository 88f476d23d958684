"""Consent: which actions are asked about, what an answer does, and that no question hangs or is answered twice."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from nbagent.core.errors import InstallRefused, UsageError
from nbagent.core.events import Approval, ApprovalAsked, ApprovalGiven, ApprovalsSet, Decision, Package
from nbagent.safety.actions import Action, Kind, of_cell
from nbagent.safety.approvals import Consent, Mode, Unattended

KINDS: tuple[Kind, ...] = ("cell", "shell", "edit", "install", "mcp", "tool", "budget", "names")


def action(kind: Kind, what: str = "x", **more: Any) -> Action:
    """An action of some kind."""
    return Action(kind=kind, tool="t", what=what, **more)


ENV = of_cell("!A=1 ls", tool="p", turn=1)
BASH = of_cell("%%bash\nls", tool="p", turn=1)
PACKAGE = action("install", packages=("a==1",))


@pytest.mark.parametrize(
    ("mode", "free"),
    [
        ("ask", set()),
        ("auto-edit", {"cell", "edit"}),
        ("allow-list", set()),
        ("never-ask", {"cell", "shell", "edit", "install", "mcp", "tool"}),
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
        ("import os\nos.system('ls')", ("python: os.system('ls')",)),
        ("!ls -l", ("ls -l",)),
        ("x = 1\nfiles = !ls /tmp", ("ls /tmp",)),
        ("!ls; rm -rf /", ("ls; rm -rf /",)),
        ("!ls $(rm x)", ("ls $(rm x)",)),
        ("%%bash\nls\nrm x", ("%%bash\nls\nrm x",)),
        ("%sx ls", ("ls",)),
        ("!!ls", ("ls",)),
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
    ("code", "what"),
    [
        ("import subprocess\nprint(subprocess.run(['echo', 'a b'], text=True).stdout)", "echo 'a b'"),
        ("import os\nos.system('ls -l')", "ls -l"),
        ("!git status", "git status"),
        ("import subprocess\nsubprocess.run(command)", "subprocess.run(command)"),
        ("import os\nos.system('ls\\nrm x')", "os.system('ls\\nrm x')"),
        ("subprocess.run(['ls'], executable='/bin/rm')", "subprocess.run(['ls'], executable='/bin/rm')"),
        ("subprocess.run(['ls', x])", "subprocess.run(['ls', x])"),
        ("subprocess.run(['ls'], **more)", "subprocess.run(['ls'], **more)"),
        ("import subprocess", "import subprocess"),
    ],
)
def test_a_program_is_named_as_a_person_types_it(code: str, what: str) -> None:
    """And as Python where anything else than one command of one line might run."""
    assert of_cell(code, tool="python", turn=1).what == what


@pytest.mark.parametrize(
    ("rules", "allowed", "asked"),
    [
        (["cell"], ["1 + 1"], ["!ls"]),
        (["cell", "shell:ls *", "shell:ls"], ["!ls -l", "!ls", "x = !ls a"], ["!lsof", "!ls; rm", "!rm", "%%sh\nls"]),
        (["shell:*"], ["!ls"], ["x = 1\n!ls"]),
        (["cell", "shell:ls *"], [], ["!ls {'; rm x'}", "!ls \\\n ; rm x", "!ls $X", "import os; os.system('ls -l')"]),
        (["cell", "shell:python*"], [], ["import subprocess", "exec(x)"]),
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


def test_rules_beside_a_mode() -> None:
    """What the mode leaves free needs no rule of its own."""
    consent = Consent(Mode.AUTO_EDIT, lambda _: None, allow=["shell:ls"])
    assert consent.policy(of_cell("x = 1\n!ls", tool="python", turn=1))
    assert not consent.policy(of_cell("x = 1\n!rm x", tool="python", turn=1))


def test_rules_for_files() -> None:
    """Are about where the file really is, and all of its path."""
    consent = Consent(Mode.ALLOW_LIST, lambda _: None, allow=["edit:/tmp/out/*", "edit:*.csv"])
    paths = ["/tmp/out/a", "/workspace/a.csv", "/tmp/out/../a", "/tmp/" + "a" * 600 + ".csv/b.py"]
    assert [bool(consent.policy(action("edit", path, path=path))) for path in paths] == [True, True, False, False]


def test_rules_take_names_of_packages_in_any_form() -> None:
    """As the index does."""
    consent = Consent(Mode.ALLOW_LIST, lambda _: None, allow=["install:Scikit_Learn"])
    assert consent.policy(action("install", packages=("scikit-learn==1",)))


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

    async def ask(self, wanted: Action, decision: Decision = "approve", **answer: Any) -> Approval:
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
    assert verdict == Approval(decision="reject", by="person", reason="Not now")
    assert not verdict.granted
    assert asked.told == [
        ApprovalAsked(
            id="a1", turn=3, kind="cell", tool="t", what="1 + 1", code="1 + 1\n2", rules=["cell:*"], allows="every cell"
        ),
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
        (of_cell("!ls", tool="p", turn=1), of_cell("!ls", tool="p", turn=1), of_cell("1 + 1", tool="p", turn=1)),
        (of_cell("%sx ls", tool="p", turn=1), of_cell("!ls", tool="p", turn=1), of_cell("%sx rm x", tool="p", turn=1)),
        (BASH, BASH, of_cell("%%bash\nrm x", tool="p", turn=1)),
        (ENV, ENV, of_cell("!A=1 rm x", tool="p", turn=1)),
        (action("shell", "sh -c ls"), action("shell", "sh -c ls"), action("shell", "sh -c rm")),
        (action("shell", "/usr/bin/env ls"), action("shell", "/usr/bin/env ls"), action("shell", "/usr/bin/env rm")),
        (action("shell", "'ls x' a"), action("shell", "'ls x' a"), action("shell", "'ls y' b")),
    ],
)  # fmt: skip
async def test_always(first: Action, same: Action, other: Action) -> None:
    """The same kind of thing isn't asked about again in this session, resumed or not; another is."""
    asked = Asked()
    await asked.ask(first, always=True)
    assert (await asked.consent.ask(same)).by == "policy:allow-list"
    assert not asked.consent.policy(other)
    for keep in (True, False):
        resumed = Asked()
        resumed.consent.begin(asked.told, keep=keep)
        assert bool(resumed.consent.policy(same)) is keep
        assert not resumed.consent.policy(other)


@pytest.mark.parametrize("unattended", ["reject", "approve"])
async def test_nobody_is_there(unattended: Unattended) -> None:
    """The policy for that answers at once, and both are told."""
    told: list[Any] = []
    consent = Consent(Mode.ASK, told.append, unattended=unattended)
    verdict = await asyncio.wait_for(consent.ask(action("cell")), 60)
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


async def test_who_is_told_may_answer_at_once() -> None:
    """Within the event itself, as a program does that follows the session."""
    consent: Consent

    def told(event: Any) -> None:
        if isinstance(event, ApprovalAsked):
            assert consent.answer(event.id, "approve")
            assert not consent.answer(event.id, "reject")

    consent = Consent(Mode.ASK, told, attended=True)
    assert (await asyncio.wait_for(consent.ask(action("cell")), 60)).granted


async def test_an_answer_from_another_thread() -> None:
    """Wakes the session's loop."""
    asked = Asked()
    asking = asyncio.create_task(asked.consent.ask(action("cell")))
    await asyncio.sleep(0)
    thread = threading.Thread(target=asked.consent.answer, args=("a1", "approve"))
    thread.start()
    assert (await asyncio.wait_for(asking, 60)).granted
    thread.join()


async def test_two_questions_at_once() -> None:
    """Each has its own answer, in whatever order they come."""
    asked = Asked()
    first, second = (asyncio.create_task(asked.consent.ask(action("shell", each))) for each in "ab")
    await asyncio.sleep(0)
    assert asked.consent.answer("a2", "approve")
    assert asked.consent.answer("a1", "reject")
    assert [(await each).granted for each in (first, second)] == [False, True]


async def test_a_word_that_is_no_decision() -> None:
    """Is refused, not taken for a yes."""
    asked = Asked()
    asking = asyncio.create_task(asked.consent.ask(PACKAGE))
    await asyncio.sleep(0)
    no: Any = "deny"
    with pytest.raises(UsageError, match="no decision"):
        asked.consent.answer("a1", no)
    assert not asking.done()
    asked.consent.close()
    assert (await asking).by == "policy:stopped"


async def test_an_answer_that_comes_with_the_end_of_the_turn() -> None:
    """Is told as what it was."""
    asked = Asked()
    asking = asyncio.create_task(asked.consent.ask(action("cell")))
    await asyncio.sleep(0)
    asked.consent.answer("a1", "reject", reason="No.")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (asked.told[-1].by, asked.told[-1].reason) == ("person", "No.")


async def test_names_of_packages_wear_nobody_out() -> None:
    """Each question is of its own names, whatever is allowed otherwise; after three noes there is none any more."""
    emitted: list[object] = []
    consent = Consent(Mode.NEVER_ASK, emitted.append, allow=["install"], unattended="approve")
    for number in range(50):
        with pytest.raises(InstallRefused, match="--unknown-names"):
            await consent.exceed([f"secret-{number}"], "Too many.", turn=1)
    asked = [each for each in emitted if isinstance(each, ApprovalAsked)]
    assert [(each.kind, each.packages, each.rules) for each in asked] == [
        ("names", [f"secret-{number}"], []) for number in range(3)
    ]


async def test_a_budget_is_asked_for_again() -> None:
    """Nobody allows more for the whole session: it would be no budget."""
    asked = Asked(Mode.NEVER_ASK)
    assert (await asked.ask(action("budget"), always=True)).by == "person"
    assert asked.told[0].rules == []
    assert not asked.consent.policy(action("budget"))


async def test_nobody_who_is_away_allows_more() -> None:
    """Whatever policy there is for what the model does: who set a budget for that time has answered."""
    consent = Consent(Mode.NEVER_ASK, lambda _: None, unattended="approve")
    assert not (await consent.ask(action("budget"))).granted


async def test_how_long_a_person_was_waited_for() -> None:
    """Several questions at a time count once, and it is known while they are open; without a question it stands."""
    asked = Asked()
    assert asked.consent.waited == 0
    open_ones = [asyncio.create_task(asked.consent.ask(action("cell"))) for _ in range(2)]
    await asyncio.sleep(0.2)
    assert asked.consent.waited > 0.15
    for name in ("a1", "a2"):
        asked.consent.answer(name, "approve")
    await asyncio.gather(*open_ones)
    waited = asked.consent.waited
    await asyncio.sleep(0.05)
    assert 0.15 < asked.consent.waited == waited


async def test_a_long_question() -> None:
    """Has its line cut for the event, and no rule is cut with it."""
    asked = Asked()
    await asked.ask(action("shell", "ls " + "a" * 1000 + ";rm"), always=True)
    assert len(asked.told[0].what) == 500
    assert asked.told[0].what.endswith("…")
    assert not asked.consent.policy(action("shell", "ls b"))


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


@pytest.mark.parametrize(
    ("was", "chosen", "keep", "mode", "told"),
    [
        ([], "never-ask", False, "never-ask", []),
        ([], "ask", False, "ask", ["ask"]),
        (["ask"], "never-ask", True, "ask", []),
        (["ask"], "allow-list", True, "ask", []),
        (["auto-edit"], "ask", True, "ask", ["ask"]),
        (["ask", "never-ask"], "auto-edit", True, "auto-edit", ["auto-edit"]),
        (["ask"], "never-ask", False, "never-ask", ["never-ask"]),
        (["of another version"], "never-ask", True, "ask", []),
    ],
)
def test_a_mode_is_kept(was: list[str], chosen: str, keep: bool, mode: str, told: list[str]) -> None:
    """Where nobody chose another, a session that is gone on with asks no less than before, nor than the settings.

    A mode that is not known any more is taken for the strictest.
    """
    events: list[Any] = []
    consent = Consent(Mode(chosen), events.append)
    consent.begin([ApprovalsSet(mode=each) for each in was], keep=keep)
    assert consent.mode == mode
    assert [each.mode for each in events] == told


async def test_ids_go_on() -> None:
    """A question of a session that is gone on with is not taken for one of before; a changed mode is told."""
    events: list[Any] = []
    consent = Consent(Mode.ASK, events.append)
    consent.begin([ApprovalAsked(id=f"a{each}", turn=1, kind="cell", tool="python", what="1") for each in (1, 2)])
    await consent.ask(of_cell("1", tool="python", turn=1))
    assert [each.id for each in events if isinstance(each, ApprovalAsked)] == ["a3"]
    consent.mode = Mode.AUTO_EDIT
    consent.mode = Mode.AUTO_EDIT
    assert [each.mode for each in events if isinstance(each, ApprovalsSet)] == ["ask", "auto-edit"]
