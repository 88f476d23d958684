"""The host's end of what client's kernels save, against callers of every kind."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbagent.core.limits import Limits
from nbagent.sandbox.leases.lease import Lease
from nbagent.sandbox.machine.handoff import Handoff
from nbagent.sandbox.results.receiver import Receiver
from nbagent.sandbox.spec import SandboxSpec


@pytest.fixture
def handoff(tmp_path: Path) -> Iterator[Handoff]:
    """An open hand-over, taken by the start-up code, whose results land below tmp_path."""
    receiver = Receiver(tmp_path, Path("results"), Limits(result_mb=1, session_mb=2))
    made = Handoff(Lease.take("local", SandboxSpec(), key="secret"), results=receiver)
    made.open({})
    with door(made) as client:
        for each in socket.recv_fds(client, 65536, 6)[1]:
            os.close(each)
    yield made
    made.remove()


def door(handoff: Handoff) -> socket.socket:
    """A connection, as code in the sandbox makes it."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    client.connect(str(handoff.shared / "controller.sock"))
    return client


def save(handoff: Handoff, path: Any, content: bytes, *, claimed: Any = None) -> dict[str, Any]:
    """Send a file as the kernel does; returns the last answer."""
    with door(handoff) as client, client.makefile("rb") as answers:
        request = {"save": path, "size": len(content) if claimed is None else claimed}
        client.sendall(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(answers.readline())
        if "go" not in answer:
            return answer
        with contextlib.suppress(OSError):  # the host may have all that it wants, and be gone
            client.sendall(content)
            client.shutdown(socket.SHUT_WR)
        final: dict[str, Any] = json.loads(answers.readline())
        return final


def test_a_file_lands_with_a_clean_name(handoff: Handoff, tmp_path: Path) -> None:
    """What is hidden, or has control characters, is made plain; an empty file is one too."""
    assert save(handoff, "/workspace/.git/hooks/x\n", b"1") == {"saved": "git/hooks/x_"}
    assert save(handoff, "/tmp/output/empty", b"") == {"saved": "empty"}
    assert (tmp_path / "results" / "git" / "hooks" / "x_").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("/etc/passwd", 1), ("/workspace/../../x", 1), ("/workspace", 1), ("/workspace/", 1), ("/workspace//x", 1),
        ("x", 1), (["/workspace/x"], 1), (None, 1), ("/workspace/" + "x/" * 3000, 1),
        ("/workspace/x", -1), ("/workspace/x", True), ("/workspace/x", 1e9), ("/workspace/x", "1"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(handoff: Handoff, tmp_path: Path, path: Any, size: Any) -> None:
    """Before a byte of it comes."""
    assert "error" in save(handoff, path, b"1", claimed=size)
    assert not list(tmp_path.iterdir())


def test_fewer_or_more_bytes_than_claimed(handoff: Handoff, tmp_path: Path) -> None:
    """Half a file is none, and no more is written than was claimed."""
    assert "error" in save(handoff, "/workspace/half", b"1" * 10, claimed=20)
    assert save(handoff, "/workspace/cut", b"1" * 20, claimed=10) == {"saved": "cut"}
    assert {each.name: each.stat().st_size for each in (tmp_path / "results").iterdir()} == {"cut": 10}


def test_the_quota_counts_names_and_what_is_replaced_once(handoff: Handoff) -> None:
    """Code can fill the person's disk neither with bytes nor with names."""
    for _ in range(5):
        assert save(handoff, "/workspace/a", os.urandom(900_000)) == {"saved": "a"}
    assert save(handoff, "/workspace/b", bytes(900_000)) == {"saved": "b"}
    assert "limit session_mb" in save(handoff, "/workspace/c", bytes(900_000))["error"]
    assert "limit result_mb" in save(handoff, "/workspace/a", bytes(2_000_000))["error"]
    refused = [number for number in range(100) if "error" in save(handoff, f"/workspace/{number}", b"")]
    assert refused


def test_names_take_little_of_the_servers_memory(handoff: Handoff, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code can't save empty files without end; one that was saved can be saved again."""
    monkeypatch.setattr("nbagent.sandbox.results.receiver.MAX_KEPT", 3000)
    assert [save(handoff, path, b"") for path in ("/workspace/a", "/workspace/b")] == [{"saved": "a"}, {"saved": "b"}]
    assert "too many files" in save(handoff, "/workspace/c", b"")["error"]
    assert save(handoff, "/workspace/a", b"1") == {"saved": "a"}


def test_a_slow_caller_keeps_nobody_from_installing(handoff: Handoff) -> None:
    """While a file is on its way, other requests are answered, and a second file is refused."""
    handoff.install = lambda wanted: [{"name": each, "version": "1"} for each in wanted]
    with door(handoff) as slow, slow.makefile("rb") as answers:
        slow.sendall(b'{"save": "/workspace/slow", "size": 2}\n')
        assert json.loads(answers.readline()) == {"go": True}
        assert save(handoff, "/workspace/other", b"1") == {"error": "another file is on its way"}
        with door(handoff) as client, client.makefile("rb") as told:
            client.sendall(b'{"install": ["a"]}\n')
            assert json.loads(told.readline()) == {"installed": [{"name": "a", "version": "1"}]}
        slow.sendall(b"12")
        assert json.loads(answers.readline()) == {"saved": "slow"}
    assert save(handoff, "/workspace/other", b"1") == {"saved": "other"}


def test_a_folder_that_can_t_be_written_is_said(handoff: Handoff, tmp_path: Path) -> None:
    """In the cell, where the person looks."""
    (tmp_path / "results").write_text("a file")
    assert save(handoff, "/workspace/x", b"1")["error"].startswith("the folder results can't be written: ")
