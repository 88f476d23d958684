"""Files that cells leave in /tmp/output, however they are named and whatever they are."""

from __future__ import annotations

import hashlib
import stat
import time
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import machine
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from nbagent.core.limits import Limits
from nbagent.core.quota import Quota
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer.collector import NAME_BYTES, Collected, Collector
from nbagent.kernel.transfer.sandbox_paths import SandboxPath
from nbagent.kernel.transfer.transfer import Carried
from nbagent.sandbox.results.folder import safe_name

MAX_FILES = Limits().result_files
on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel() -> AsyncIterator[Kernel]:
    """A sandbox that all tests here share."""
    async with Kernel(machine.works("bubblewrap")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def collector(kernel: Kernel, tmp_path: Path) -> AsyncIterator[Collector]:
    """A collector that has collected nothing, of an output folder with nothing in it."""
    await run(kernel, "import os, shutil, time\nos.chdir('/tmp/output')")
    yield Collector(kernel, tmp_path / "output", source="/tmp/output")
    await run(
        kernel, "for it in os.scandir('.'): shutil.rmtree(it) if it.is_dir(follow_symlinks=False) else os.unlink(it)"
    )


async def run(kernel: Kernel, code: str) -> None:
    """Run code that doesn't fail."""
    cell = await kernel.run(code)
    assert cell.success, cell.outputs


async def nothing(collector: Collector) -> bool:
    """Whether there is nothing to collect and nothing to say."""
    found = await collector.collect()
    return not (found.saved or found.note or found.left)


def left(found: Collected) -> dict[str, str]:
    """What was left behind, and why."""
    return {each.path.removeprefix("/tmp/output/"): each.why for each in found.left}


@on_one_loop
async def test_a_file_reaches_the_host(kernel: Kernel, collector: Collector, tmp_path: Path) -> None:
    """Its bytes, size and hash are there, under its name, as a plain file that is the person's."""
    await run(kernel, "open('a b.bin', 'wb').write(bytes(range(256)) * 3000)")
    found = await collector.collect()
    content = bytes(range(256)) * 3000
    (one,) = found.saved
    assert (one.name, one.size, found.note, found.total) == ("a b.bin", len(content), "", 1)
    assert one.sha256 == hashlib.sha256(content).hexdigest()
    assert one.path == tmp_path / "output" / "a b.bin"
    assert one.path.read_bytes() == content
    assert stat.S_IMODE(one.path.stat().st_mode) == 0o644


@on_one_loop
async def test_a_file_is_collected_when_it_is_new_or_has_changed(kernel: Kernel, collector: Collector) -> None:
    """What was collected already isn't collected again, until it changes; then it replaces the earlier one."""
    await run(kernel, "open('a', 'w').write('1'); open('empty', 'w').close()")
    assert sorted(one.name for one in (await collector.collect()).saved) == ["a", "empty"]
    assert await nothing(collector)
    await run(kernel, "open('a', 'w').write('22')")
    (one,) = (await collector.collect()).saved
    assert one.path.read_text() == "22"
    assert sorted(each.name for each in one.path.parent.iterdir()) == ["a", "empty"]


@on_one_loop
async def test_a_run_gives_at_most_twenty_files(kernel: Kernel, collector: Collector) -> None:
    """The others are counted, and come after the next run."""
    await run(kernel, "for i in range(25): open(f'{i:02}', 'w').close(); os.utime(f'{i:02}', (i, i))")
    found = await collector.collect()
    saved, note = found.saved, found.note
    assert [one.name for one in saved] == [f"{i:02}" for i in range(MAX_FILES)]
    assert "25 files are new" in note
    assert "20 were collected" in note
    found = await collector.collect()
    saved, note = found.saved, found.note
    assert ([one.name for one in saved], note) == ([f"{i:02}" for i in range(20, 25)], "")


@on_one_loop
async def test_only_plain_files_are_collected(kernel: Kernel, collector: Collector) -> None:
    """Links to anything, pipes and sockets are left, without waiting for what never comes; each is named, once."""
    await run(
        kernel,
        "import socket\nos.symlink('/etc/passwd', 'link')\nos.symlink('/', 'root')\nos.symlink('nowhere', 'dangling')\n"
        "os.mkfifo('pipe')\nserver = socket.socket(socket.AF_UNIX); server.bind('socket')\nos.mkdir('folder')\n"
        "open('one', 'w').close(); os.link('one', 'two')\nopen('plain', 'w').write('x')",
    )
    started = time.monotonic()
    found = await collector.collect()
    assert ([one.name for one in found.saved], found.note) == (["plain"], "")
    kinds = {name: why.partition(",")[0] for name, why in left(found).items()}
    links, hard = dict.fromkeys(("link", "root", "dangling"), "it is a link"), "it is a hard link"
    assert kinds == links | {"one": hard, "two": hard} | dict.fromkeys(("pipe", "socket"), "it is no plain file")
    assert time.monotonic() - started < 25
    assert await nothing(collector)


@on_one_loop
async def test_a_huge_file_stays_and_that_is_said(kernel: Kernel, collector: Collector) -> None:
    """A file beyond the bound, even one without content, isn't sent; its size is told, and others come."""
    await run(kernel, "os.truncate(os.open('huge', os.O_CREAT | os.O_RDWR), 2**31 + 1); open('small', 'w').close()")
    found = await collector.collect()
    assert [one.name for one in found.saved] == ["small"]
    assert left(found)["huge"].startswith("it has 2.15 GB, and a result at most 2,048 MB (limit result_mb; raise it")
    assert await nothing(collector)


@on_one_loop
@pytest.mark.usefixtures("collector")
async def test_names_of_empty_files_and_folders_count_against_the_quota(kernel: Kernel, tmp_path: Path) -> None:
    """The names of a file and of the folders above it take room on the host's disk too."""
    counted = Collector(kernel, tmp_path / "few", source="/tmp/output", quota=Quota(60 * NAME_BYTES))
    await run(kernel, "for n in range(9): os.makedirs(f'{n}/' + 'd/' * 8); open(f'{n}/' + 'd/' * 8 + 'e', 'w').close()")
    found = await counted.collect()
    assert (len(found.saved), len(found.left)) == (5, 4)
    assert "limit session_mb" in found.left[0].why
    assert sum(each.is_dir() for each in (tmp_path / "few").rglob("*")) == 5 * 9


@on_one_loop
async def test_a_sparse_terabyte_stays(kernel: Kernel, collector: Collector, tmp_path: Path) -> None:
    """A file that claims a terabyte, and has none of it, costs the host nothing."""
    await run(kernel, "os.truncate(os.open('tera.bin', os.O_CREAT | os.O_RDWR), 2**40)")
    started = time.monotonic()
    found = await collector.collect()
    assert (found.saved, list(left(found))) == ([], ["tera.bin"])
    assert time.monotonic() - started < 25
    assert not (tmp_path / "output").exists()


@on_one_loop
async def test_what_the_last_run_wrote_comes_first(kernel: Kernel, collector: Collector) -> None:
    """Of thousands that wait, a later run's own file does not; and those that are gone are waited for no more."""
    await run(kernel, "for i in range(3000): open(f'{i}', 'w').close()")
    assert len((await collector.collect()).saved) == MAX_FILES
    await run(kernel, "open('result.csv', 'w').write('1')")
    found = await collector.collect()
    assert found.saved[0].name == "result.csv"
    assert (len(found.saved), found.total) == (MAX_FILES, 3001)
    assert "of 3,001 files are new" in found.note
    await run(kernel, "for i in range(3000): os.unlink(f'{i}')")
    assert await nothing(collector)


@on_one_loop
async def test_a_folder_that_is_moved_in_is_collected(kernel: Kernel, collector: Collector) -> None:
    """Files whose own times are old are new in the folder all the same."""
    await run(
        kernel, "os.makedirs('/tmp/made'); open('/tmp/made/a.csv', 'w').write('1'); os.utime('/tmp/made/a.csv', (1, 1))"
    )
    assert await nothing(collector)
    await run(kernel, "shutil.move('/tmp/made', '/tmp/output/made')")
    assert [one.name for one in (await collector.collect()).saved] == ["made/a.csv"]


@on_one_loop
async def test_too_many_files_are_counted_and_bounded(kernel: Kernel, collector: Collector) -> None:
    """More files than are followed take a bounded time, and the count says that it is none."""
    await run(kernel, "for i in range(120_000): os.close(os.open(f'{i}', os.O_CREAT))")
    started = time.monotonic()
    found = await collector.collect()
    assert time.monotonic() - started < 25
    assert len(found.saved) == MAX_FILES
    assert "20,000 of at least 100,000 files are new" in found.note


SWAPS = {
    "link": "os.symlink('/etc/passwd', 'swapped')",
    "hard link": "os.link('/tmp/target', 'swapped')",
    "pipe": "os.mkfifo('swapped')",
    "socket": "import socket; socket.socket(socket.AF_UNIX).bind('swapped')",
    "folder": "os.mkdir('swapped')",
    "nothing": "pass",
    "linked folder": "os.rename('below', 'was'); os.symlink('/etc', 'below')",
}


@pytest.mark.parametrize("swap", SWAPS)
@on_one_loop
async def test_what_takes_a_files_place_is_not_sent(
    kernel: Kernel, collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    """A file that was listed and is something else when it is to be sent is refused, without a hang."""
    await run(kernel, "open('/tmp/target', 'w').write('of another'); open('swapped', 'w').write('plain')")
    await run(kernel, "os.mkdir('below'); open('below/passwd', 'w').write('plain')")
    download = collector._transfer.download

    async def late(place: SandboxPath, *arguments: Any, **more: Any) -> Carried:
        await run(kernel, f"os.path.exists('swapped') and os.unlink('swapped'); {SWAPS[swap]}")
        monkeypatch.undo()
        return await download(place, *arguments, **more)

    monkeypatch.setattr(collector._transfer, "download", late)
    started = time.monotonic()
    found = await collector.collect()
    await run(kernel, "os.unlink('/tmp/target')")
    assert time.monotonic() - started < 25
    saved = {one.path.read_text() for one in found.saved}
    assert saved <= {"plain"}
    assert len(found.saved) == (swap != "linked folder")
    assert "could not be fetched" in str(left(found))
    kept = [each for each in (tmp_path / "output").rglob("*") if each.is_file()]
    assert len(kept) == len(found.saved)


@on_one_loop
async def test_an_output_folder_that_is_a_link_gives_nothing(kernel: Kernel, collector: Collector) -> None:
    """What code puts in the folder's place isn't looked into."""
    await run(kernel, "os.chdir('/'); os.rename('/tmp/output', '/tmp/was'); os.symlink('/etc', '/tmp/output')")
    found = await collector.collect()
    await run(kernel, "os.unlink('/tmp/output'); os.rename('/tmp/was', '/tmp/output'); os.chdir('/tmp/output')")
    assert (found.saved, found.total) == ([], 0)


@on_one_loop
async def test_a_large_file_comes_whole(kernel: Kernel, collector: Collector) -> None:
    """Thirty megabytes come in order and unharmed."""
    await run(kernel, "import random\ndata = random.Random(1).randbytes(30_000_001)\nopen('large', 'wb').write(data)")
    cell = await kernel.run("import hashlib; print(hashlib.sha256(data).hexdigest())")
    (one,) = (await collector.collect()).saved
    assert (one.size, one.sha256) == (30_000_001, cell.text)
    assert hashlib.sha256(one.path.read_bytes()).hexdigest() == cell.text


@on_one_loop
async def test_hostile_names_become_harmless(kernel: Kernel, collector: Collector, tmp_path: Path) -> None:
    """Newlines, escapes, quotes, bytes that are no text and names as long as they can be: each file is there, once."""
    names = [
        b"line\nbreak.csv",
        b"\x1b]0;title\x07.csv",
        b'"quo\'ted".csv',
        b"\xff\xfe.csv",
        "\u202etxt.exe".encode(),
        "penguin 🐧.csv".encode(),
        b"x" * 255,
        "é".encode() * 120 + b".csv",
        b"...hidden",
        b".hidden",
        b"CON:?*|<>",
        b" ",
        b"back\\slash",
        b"{'a': %s}",
    ]
    await run(kernel, f"for name in {names!r}: open(name, 'wb').write(name)")
    found = await collector.collect()
    saved, note = found.saved, found.note
    assert note == ""
    assert sorted(one.path.read_bytes() for one in saved) == sorted(names)
    assert sorted(each.name for each in (tmp_path / "output").iterdir()) == sorted(one.name for one in saved)
    for one in saved:
        assert one.path.parent == tmp_path / "output"
        assert one.name.isprintable()
        assert not one.name.startswith(".")


@on_one_loop
async def test_names_that_differ_by_case_or_folder_stay_apart(kernel: Kernel, collector: Collector) -> None:
    """No file replaces another on the host, not even on a file system that doesn't tell capitals."""
    code = "os.makedirs('p/q')\nfor name in ['a_b', 'A_b', 'p/q/x', 'p_q_x', 'p_q/x']:\n"
    await run(
        kernel, code + "    os.makedirs(os.path.dirname(name) or '.', exist_ok=True); open(name, 'w').write(name)"
    )
    saved = (await collector.collect()).saved
    assert sorted(one.path.read_text() for one in saved) == sorted(["a_b", "A_b", "p/q/x", "p_q_x", "p_q/x"])
    assert len({one.name.casefold() for one in saved}) == 5
    await run(kernel, "open('A_b', 'w').write('again')")
    (again,) = (await collector.collect()).saved
    assert again.path in {one.path for one in saved}
    assert again.path.read_text() == "again"


@on_one_loop
async def test_nothing_is_written_through_a_link_on_the_host(
    kernel: Kernel, collector: Collector, tmp_path: Path
) -> None:
    """A link where results land, of a cloned repository's for example, is neither replaced nor followed."""
    (tmp_path / "output").mkdir()
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "output" / "a").symlink_to(tmp_path / "secret")
    await run(kernel, "open('a', 'w').write('theirs')")
    await collector.collect()
    assert (tmp_path / "secret").read_text() == "mine"
    assert (tmp_path / "output" / "a").is_symlink()
    assert (tmp_path / "output" / "a-1").read_text() == "theirs"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "output" / "below").symlink_to(tmp_path / "elsewhere")
    await run(kernel, "os.mkdir('below'); open('below/a', 'w').write('theirs')")
    assert [one.name for one in (await collector.collect()).saved] == ["below-1/a"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


@on_one_loop
async def test_thousands_of_files_take_no_time(kernel: Kernel, collector: Collector) -> None:
    """A cell that litters the folder doesn't stop the session."""
    await run(kernel, "for i in range(5000): open(f'{i}', 'w').close()")
    started = time.monotonic()
    found = await collector.collect()
    saved, note = found.saved, found.note
    assert len(saved) == MAX_FILES
    assert "20 were collected" in note
    assert time.monotonic() - started < 25


@on_one_loop
async def test_a_folder_that_cannot_be_written_is_the_hosts_error(kernel: Kernel, tmp_path: Path) -> None:
    """A full disk or a file in the way on the host is an OSError, and no half file stays."""
    (tmp_path / "output").touch()
    await run(kernel, "open('/tmp/output/a', 'w').close()")
    with pytest.raises(OSError, match="File exists"):
        await Collector(kernel, tmp_path / "output", source="/tmp/output").collect()


LIES = [
    "None",
    "'x'",
    "[['a', -1, 0], ['a', 'b', 'c'], [1], {}, 'ab']",
    "[['../../../../etc/passwd', 10, 1], ['/etc/passwd', 10, 2], ['.', 1, 1], ['a//b', 1, 1]]",
    "[['a', 10**30, 1]]",
    "[['nothing', 5, 1]]",
    "[['x' * 10**6, 5, 1]]",
    "[[str(i), 0, 0] for i in range(100_000)]",
]


@pytest.mark.parametrize("lie", LIES)
@on_one_loop
async def test_a_sandbox_that_lies_gives_nothing_away(
    kernel: Kernel, collector: Collector, tmp_path: Path, lie: str
) -> None:
    """Whatever a kernel in hostile hands says of its files, nothing is written outside of the session's folder."""
    code = "import builtins\nreal = sorted\ndef lies(*found, key=None, **more):\n"
    code += "    ours = key and getattr(key, '__globals__', {}).get('__name__') == 'nbagent'\n"
    await run(kernel, f"{code}    return {lie} if ours else real(*found, key=key, **more)")
    await run(kernel, "builtins.sorted = lies")
    found = await collector.collect()
    await run(kernel, "builtins.sorted = real")
    saved = found.saved
    assert len(found.note) < 5000
    if "passwd" in lie:
        assert "could not be fetched" in str(left(found))
    outside = [each for each in tmp_path.rglob("*") if each.is_file() and each.parent != tmp_path / "output"]
    assert outside == []
    # /etc/passwd in there is the sandbox's own.
    assert [one.path.read_text() for one in saved] in ([], ["root:x:0:0"])


@given(st.text(min_size=1, max_size=400) | st.text("./\\ \u202e\ud800\0", max_size=20))
def test_a_safe_name_is_one(name: str) -> None:
    """Never empty, hidden, long or a path, and without controls, so that it can be shown and typed."""
    found = safe_name(name)
    assert 0 < len(found.encode()) <= 170
    assert not found.startswith((".", " ", "-"))
    assert not set(found) & set('/\\:*?"<>|')
    assert not any(unicodedata.category(each).startswith("C") for each in found)


def test_a_plain_name_stays() -> None:
    """Nothing is changed that needs no change; a path becomes one name."""
    names = ["report.csv", "Größe 2.tar.gz", "penguin 🐧.png", "plots/a.png"]
    assert [safe_name(name) for name in names] == ["report.csv", "Größe 2.tar.gz", "penguin 🐧.png", "plots_a.png"]
