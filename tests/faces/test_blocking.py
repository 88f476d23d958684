"""Sessions for scripts: each call waits, whoever owns the session."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbagent import BlockingSession
from nbagent.core.errors import UsageError
from nbagent.session import index


def test_a_session_is_left_and_gone_on_with(tmp_path: Path) -> None:
    """`detach` waits until the kernel is let go of; `connect` takes it over with its variables, and `stop` ends it."""
    session = BlockingSession(engine="bubblewrap", state_dir=tmp_path)
    with session:
        session.run("x = 41")
        session.detach()
    assert index.look_up(tmp_path, session.id).state == "waiting"
    with BlockingSession.connect(session.id, state_dir=tmp_path) as again:
        assert again.run("x + 1").text == "42"
        assert again.system_prompt().startswith("You")  # a coroutine without a form of its own here
        with BlockingSession.attach(session.id, state_dir=tmp_path) as guest:
            assert guest.run("x + 2").text == "43"
            assert guest.export(tmp_path / "n.ipynb").is_file()
            guest.rename("Mine")
            assert guest.approve("a1") is False
        assert again.run("x").text == "41"
        again.stop()
    assert [(each.state, each.title) for each in index.listed(tmp_path)] == [("ended", "Mine")]
    with pytest.raises(UsageError, match="was stopped"):
        again.run("x")
    with pytest.raises(UsageError, match="No process"):
        BlockingSession.attach(session.id, state_dir=tmp_path)
