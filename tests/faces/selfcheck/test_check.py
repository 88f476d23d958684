"""The run of all attacks: what it makes on the host is gone afterwards; an ordinary user's sandbox holds too."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sandbox.test_bubblewrap import as_user

from nbagent.core.limits import Limits
from nbagent.core.policy import TrustLevel
from nbagent.faces.selfcheck import aims, check
from nbagent.faces.selfcheck.probe import ProbeVerdict
from nbagent.sandbox.machine.instance import known_on_machine
from nbagent.sandbox.registry import engines

AS_USER = """
import asyncio, json
from nbagent.core.policy import TrustLevel
from nbagent.sandbox.registry import engines
from nbagent.faces.selfcheck.check import check
outcome = asyncio.run(check(engines()["bubblewrap"], TrustLevel.UNTRUSTED))
print(json.dumps([[each.probe.name, each.verdict.value, each.seen, each.reason] for each in outcome.findings]))
"""


def test_nothing_of_the_aims_stays(tmp_path: Path) -> None:
    """Files, processes, shared memory, the queue and the variable are gone at the end."""
    with aims.prepared(state=tmp_path) as made:
        folder, process, name = made.folder, made.host["process"], made.host["shm_name"]
        assert folder.exists()
        assert os.environ[aims.VARIABLE] == made.secret
    assert not folder.exists()
    assert not Path(f"/proc/{process}").exists()
    assert not Path("/dev/shm", name).exists()
    assert aims.VARIABLE not in os.environ
    assert name not in Path("/proc/net/unix").read_text()


def test_a_slow_machine_gets_more_time() -> None:
    """An attack that comes to no end proves nothing; less time than usual would prove less."""
    engine = engines()["bubblewrap"]
    slow = check._trust(engine, TrustLevel.UNTRUSTED, 300, 200).limits
    assert (slow.timeout, slow.start_timeout) == (300, 200)
    usual = check._trust(engine, TrustLevel.UNTRUSTED, 1, None).limits
    assert (usual.timeout, usual.start_timeout) == (check.LIMITS["timeout"], Limits().start_timeout)


@pytest.mark.needs("root")
def test_an_ordinary_user_s_sandbox_holds() -> None:
    """What can't be bounded without control groups is known, with the reason; all else holds."""
    done = as_user(AS_USER)
    assert done.returncode == 0, done.stderr
    found = {name: (verdict, seen, reason) for name, verdict, seen, reason in json.loads(done.stdout)}
    wrong = {name: told for name, told in found.items() if told[0] not in (ProbeVerdict.HELD, ProbeVerdict.KNOWN)}
    assert wrong == {}
    verdict, _, reason = found["take_memory_by_memfd"]
    assert verdict == ProbeVerdict.KNOWN
    assert "this user may not make control groups" in reason
    assert "--accept memory" in reason


@pytest.mark.parametrize(("pattern", "is_known"), [("core", False), ("|/x", False), ("@/x", True), ("@@/x", True)])
def test_a_socket_for_crashes_is_a_known_failure(tmp_path: Path, pattern: str, is_known: bool) -> None:
    """Of every engine: the self-check names it with the reason."""
    (tmp_path / "core_pattern").write_text(f"{pattern}\n")
    known = known_on_machine(core_pattern=tmp_path / "core_pattern")
    assert ("leave_core_files" in known) is is_known
