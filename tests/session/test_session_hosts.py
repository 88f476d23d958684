"""A session whose code asks for hosts, and a person who answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbagent import Session
from nbagent.core.errors import UsageError
from nbagent.core.events import HostAsked, HostDecided, Record
from nbagent.core.session_log import read_log

FETCH = "import urllib.request as u\ntry:\n    u.urlopen('https://{}/')\nexcept OSError as error:\n    print(error)"


async def test_a_person_answers_for_a_session(tmp_path: Path) -> None:
    """Whoever follows the events sees the question and answers it; question and decision stand in the log."""
    async with Session(engine="bubblewrap", trust="sandboxed", ask_hosts=True, state_dir=tmp_path) as session:

        def follow(record: Record) -> None:
            if isinstance(record.event, HostAsked):
                assert session.approve_host(record.event.id, allow=False)
                assert not session.approve_host(record.event.id, allow=True)

        session.follow(follow)
        cell = await session.run(FETCH.format("nbagent.invalid"))
        assert "A person denied nbagent.invalid" in cell.text
        session.allow_host("nbagent.invalid")
        cell = await session.run(FETCH.format("nbagent.invalid"))
        assert "The name nbagent.invalid is not known." in cell.text
        with pytest.raises(UsageError, match="can't be an allowed host"):
            session.allow_host("127.0.0.1")
        events = [each.event for each in read_log(session.folder)]
    asked = [each for each in events if isinstance(each, HostAsked)]
    decided = [(each.host, each.port, each.by) for each in events if isinstance(each, HostDecided)]
    assert [(each.host, each.port) for each in asked] == [("nbagent.invalid", 443)]
    assert [each.id for each in events if isinstance(each, HostDecided)] == [asked[0].id, ""]
    assert decided == [("nbagent.invalid", 443, "person"), ("nbagent.invalid", 443, "policy")]


async def test_without_a_list_there_is_nothing_to_allow(tmp_path: Path) -> None:
    """A session at a level without a network says so, with the mend."""
    async with Session(engine="bubblewrap", state_dir=tmp_path) as session:
        with pytest.raises(UsageError, match="isolated has no list of hosts") as caught:
            session.allow_host("example.org")
        assert "--allow-host" in caught.value.mend
        assert not session.approve_host("h1", allow=True)
