"""`nbagent doctor --self-check` as a person meets it, on real engines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import machine
import pytest
from program import nbagent

from nbagent.core.policy import TrustLevel
from nbagent.faces.cli.selfcheck import show
from nbagent.faces.selfcheck.check import PROBES, Outcome
from nbagent.faces.selfcheck.probe import Finding, ProbeVerdict


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder to be in."""
    return tmp_path


@pytest.fixture(autouse=True)
def _nothing_is_left(here: Path, leftovers: Callable[[], list[str]]) -> Iterator[None]:
    """Of sandboxes and of aims nothing stays on this machine; what a neighbour has just now, it takes away itself."""

    def look() -> set[str]:
        kept = [
            line.split()[1] for at in ("shm", "msg") for line in Path(f"/proc/sysvipc/{at}").read_text().splitlines()
        ]
        folders = [*Path("/tmp").glob("nbagent-check-*"), *Path("/dev/shm").glob("nbagent*"), *here.iterdir()]
        return {*leftovers(), *kept, *map(str, folders)}

    before = look()
    yield
    left, end = look() - before, time.monotonic() + machine.WAIT
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left &= look()
    assert not left


def test_a_table_tells_each_attack(here: Path) -> None:
    """What was tried, expected and seen stands there for each, then the sum; nothing is left behind."""
    done = nbagent("doctor", "--self-check", "--engine", "bubblewrap", "--trust", "untrusted", cwd=here)
    assert done.code == 0, done.out + done.err
    shown = " ".join(done.out.replace("│", " ").split())
    applied = [each for each in PROBES if TrustLevel.UNTRUSTED in each.levels]
    assert f"{len(applied)} attacks on bubblewrap at untrusted:" in shown
    assert "Read a file by its absolute path" in shown
    assert "No such file or directory" in shown
    assert "BROKEN" not in shown


def test_an_engine_that_isolates_nothing_fails(here: Path) -> None:
    """There the attacks succeed, as JSON tells, and so does the exit code; and yet nothing of them stays."""
    done = nbagent("doctor", "--self-check", "--engine", "local", "--json", cwd=here)
    assert done.code == 3, done.err
    found = json.loads(done.out)["local"]
    assert not found["holds"]
    assert found["counts"]["BROKEN"] > 80
    assert [each["name"] for each in found["probes"]] == [each.name for each in PROBES]
    assert all(each["reason"] for each in found["probes"] if each["verdict"] == "held")


def test_options_of_the_attacks_need_them(here: Path) -> None:
    """An option that would be ignored is refused."""
    done = nbagent("doctor", "--engine", "bubblewrap", cwd=here)
    assert done.code == 2
    assert "--self-check" in done.err


def test_no_engine_is_an_error(here: Path) -> None:
    """Without an engine nothing is tried, and the mend is told."""
    done = nbagent("doctor", "--self-check", cwd=here, PATH="/nowhere", DOCKER_HOST="unix:///nowhere.sock")
    assert done.code == 3
    assert "No engine can isolate code" in done.err


def test_a_hostile_sandbox_can_t_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """What a probe claims to have seen comes from inside, and is shown without control sequences."""
    finding = Finding(probe=PROBES[0], verdict=ProbeVerdict.BROKEN, seen="\x1b]52;c;aGk=\x07\x1b[2Jgone")
    show(Outcome(engine="docker", trust=TrustLevel.ISOLATED, findings=[finding]), isolates=True)
    shown = capsys.readouterr().out
    assert "gone" in shown
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
