"""What a face may do is the same wherever the session runs.

That the types agree is checked by mypy: `BlockingSession` takes both for one.
"""

from __future__ import annotations

import inspect
import re

import pytest

from nbagent import BlockingSession, Session
from nbagent.agent.ports import KernelPort
from nbagent.session.protocol import AnySession, settled
from nbagent.session.sharing.attach import Attached
from nbagent.session.sharing.wire import CALLS

METHODS = sorted(name for name, each in vars(AnySession).items() if inspect.isfunction(each) and name[0] != "_")
VALUES = sorted(name for name, each in vars(AnySession).items() if isinstance(each, property))


def returned(text: str) -> str:
    """What a call comes to once it is settled."""
    return re.sub(r"(?:asyncio\.Task|Awaitable)\[(.+?)\]( \| None)?$", r"\1", text.split(" | Awaitable")[0])


@pytest.mark.parametrize("owner", [Session, Attached])
@pytest.mark.parametrize("name", METHODS)
def test_a_call_has_the_same_form_everywhere(owner: type, name: str) -> None:
    """Names, kinds, defaults and types of its arguments, and what it comes to."""
    wanted, found = inspect.signature(getattr(AnySession, name)), inspect.signature(getattr(owner, name))
    if name == "download":  # whose forms are overloads, which mypy compares
        return
    assert list(found.parameters.values()) == list(wanted.parameters.values())
    assert returned(str(found.return_annotation)) == returned(str(wanted.return_annotation))
    if inspect.iscoroutinefunction(getattr(AnySession, name)):
        assert inspect.iscoroutinefunction(getattr(owner, name))


@pytest.mark.parametrize("owner", [Session, Attached])
def test_what_is_known_of_a_session_is_known_everywhere(owner: type) -> None:
    """Each value is a property, or set by the constructor."""
    text = inspect.getsource(owner.__init__)  # type: ignore[misc]
    assert [each for each in VALUES if not (hasattr(owner, each) or re.search(rf"self\.{each}\b", text))] == []


async def test_what_is_there_and_what_comes_are_settled_alike() -> None:
    """A face awaits `settled` of either."""

    async def later() -> int:
        return 1

    assert [await settled(1), await settled(later())] == [1, 1]


def test_the_table_of_calls_has_calls_of_a_session_only() -> None:
    """Each can be called by its name, and has the type that the call comes to."""
    for name, rule in CALLS.items():
        if name == "cancel":
            continue
        method = getattr(KernelPort if name.startswith("runs.") else AnySession, name.removeprefix("runs."))
        wanted = returned(str(inspect.signature(method).return_annotation))
        found = "None" if rule.returns is None else str(rule.returns).replace("builtins.", "")
        found = re.sub(r"<class '(?:[\w.]+\.)?(\w+)'>", r"\1", re.sub(r"nbagent[\w.]+\.(\w+)", r"\1", found))
        assert found == wanted or (name, found) == ("download", "Path")


@pytest.mark.parametrize("name", METHODS)
def test_a_blocking_session_has_each_call(name: str) -> None:
    """With the same arguments, so that editors and type checkers know them."""
    wanted = inspect.signature(getattr(AnySession, name)).parameters.values()
    found = inspect.signature(getattr(BlockingSession, name)).parameters.values()
    assert [(each.name, each.kind, each.default) for each in found] == [
        (each.name, each.kind, each.default) for each in wanted
    ]


def test_no_call_of_a_blocking_session_is_left_unawaited() -> None:
    """Of each coroutine of `Session` there is a form that waits: one of its own, or the one for all others."""
    coroutines = [name for name, each in vars(Session).items() if inspect.iscoroutinefunction(each) and name[0] != "_"]
    own = vars(BlockingSession)
    assert {"detach", "closed", "stop", "ask"} <= set(coroutines)
    for name in coroutines:
        each = own.get(name)
        assert not inspect.iscoroutinefunction(getattr(each, "__func__", each)), name
