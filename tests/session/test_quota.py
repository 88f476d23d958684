"""What one session may keep on the host's disk, whatever its cells do."""

from __future__ import annotations

from typing import Any

import machine
import nbformat
import pytest

from nbagent import Limits, Session
from nbagent.core.events import FilesLeft, OutputAdded, QuotaReached, Record
from nbagent.core.policy import MIB
from nbagent.core.quota import RESERVE_BYTES, Quota
from nbagent.kernel.outputs.limits import within

MUCH = {
    "updates": "import time\nfrom IPython.display import display\n"
    "hs = [display('x', display_id=str(i)) for i in range(50)]\n"
    "for n in range(20):\n    for h in hs: h.update('y' * 30_000)\n    time.sleep(0.15)",
    "figures": "import base64, os\nfrom IPython.display import display\n"
    "for n in range(40): display({'image/png': base64.b64encode(os.urandom(300_000)).decode()}, raw=True)",
    "files": "import os\nfor n in range(20): open(f'/tmp/output/{n}', 'wb').write(os.urandom(1_000_000))",
    "text": "for n in range(300): print('s' * 100_000)",
}
"""Code that leaves more than eight megabytes."""


def test_all_who_write_share_one_account() -> None:
    """What doesn't fit is refused, and told once; what must be told is kept out of the reserve."""
    quota = Quota(100 * MIB, used=50 * MIB)
    assert quota.take(49 * MIB)
    assert not quota.take(1)
    assert "100 MB that this session may keep on disk are used up" in quota.news()
    assert quota.news() == ""
    assert quota.spare(1000)
    assert not quota.spare(3000)
    assert not any(quota.spare(2000) for _ in range(RESERVE_BYTES)) or quota.used < 100 * MIB
    quota.add(-10 * MIB)
    assert quota.take(5 * MIB)


def test_outputs_without_room_become_a_line() -> None:
    """Each by itself; small ones stay, so that a person still sees what goes on."""
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": text} for text in ("a" * 30_000, "small", "b" * 30_000)
    ]
    quota = Quota(16 * 80_000)
    quota.used = 16 * 80_000 - 80_000 - 70_000
    kept = within(outputs, quota)
    assert kept[:2] == outputs[:2]
    assert kept[2]["text"].startswith("[left out: 30,0")
    assert quota.refused > 30_000
    assert within(outputs, Quota(4096 * MIB)) is outputs


@pytest.mark.parametrize("what", MUCH)
async def test_the_hosts_disk_is_bounded(what: str) -> None:
    """The session goes on, says so in the cell and as an event, and ends with its log and its notebook whole."""
    async with Session(engine=machine.works("bubblewrap").name, limits=Limits(session_mb=8)) as session:
        told: list[Record] = []
        session.follow(told.append)
        cells = [await session.run(MUCH[what]) for _ in range(2)]
        after = await session.run("print('still', 'here')")
        assert after.text.startswith("still here")
        shown = [
            each.event.output["text"] for each in told if isinstance(each.event, OutputAdded) and each.event.cell == 3
        ]
        assert shown == ["still here\n"]
        left = await session.deliver()
        if what == "files":
            assert left
            assert "session_mb" in str([each.event for each in told if isinstance(each.event, FilesLeft)])
            assert "was not delivered" in cells[-1].text
        else:
            assert "session_mb" in cells[-1].note
            (event,) = [each.event for each in told if isinstance(each.event, QuotaReached)]
            assert event.limit == 8 * MIB
        notebook = await session.export(session.folder / "notebook.ipynb")
        nbformat.validate(nbformat.read(notebook, as_version=4))
        assert [each.seq for each in told] == list(range(told[0].seq, told[0].seq + len(told)))
        kept = sum(each.lstat().st_size for each in session.folder.rglob("*") if each.is_file())
        assert kept <= 8 * MIB + 64 * 1024
