"""Which files of a sandbox are new or changed, noticed however many there are and without cost."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import machine
import pytest
import pytest_asyncio

from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer.file_watch import MAX_NAMED_CHANGES, FileWatch
from nbagent.kernel.transfer.sandbox_paths import file_at
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel() -> AsyncIterator[Kernel]:
    """A sandbox that all tests here share."""
    spec = SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, grace=20.0))
    async with Kernel(machine.works("bubblewrap"), spec) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def watch(kernel: Kernel) -> AsyncIterator[FileWatch]:
    """What watches a workspace with nothing in it, and /tmp."""
    await kernel.run("import os, shutil, time\nos.chdir('/workspace')")
    yield FileWatch(kernel, "/tmp/output", bound=20, others={"/workspace": "/workspace", "/tmp": "/tmp"})
    await kernel.run("shutil.rmtree('/tmp/sub', ignore_errors=True)")
    await kernel.run("for it in os.scandir('.'): shutil.rmtree(it) if it.is_dir() else os.unlink(it)")


async def changed(kernel: Kernel, watch: FileWatch, code: str, *, after: float = 0.0) -> list[tuple[str, int]]:
    """The changed files that are named after code that doesn't fail."""
    cell = await kernel.run(code)
    assert cell.success, cell.outputs
    _, _, files, _ = await watch.look(after=after)
    return [(each.path, each.size) for each in files]


async def test_new_and_changed_files_are_named_once(kernel: Kernel, watch: FileWatch) -> None:
    """In whatever folder below; and nothing is said when nothing happened."""
    code = "os.makedirs('a/b'); open('a/b/x', 'w').write('1')\nopen('/tmp/t', 'w').close()"
    made = await changed(kernel, watch, code)
    assert made == [("/workspace/a/b/x", 1), ("/tmp/t", 0)]
    assert await changed(kernel, watch, "1") == []
    assert await changed(kernel, watch, "open('a/b/x', 'a').write('2') and None") == [("/workspace/a/b/x", 2)]
    assert await changed(kernel, watch, "os.rename('a', 'c')") == [("/workspace/c/b/x", 2)]
    assert await changed(kernel, watch, "shutil.rmtree('c'); os.unlink('/tmp/t')") == []


async def test_a_write_in_place_is_noticed(kernel: Kernel, watch: FileWatch) -> None:
    """Also one that leaves size and folder as they were."""
    assert await changed(kernel, watch, "open('x', 'w').write('11'); time.sleep(0.2)") == [("/workspace/x", 2)]
    await watch.look()
    assert await changed(kernel, watch, "f = open('x', 'r+'); f.write('22'); f.close()") == [("/workspace/x", 2)]


async def test_what_no_cell_meant_to_leave_is_not_named(kernel: Kernel, watch: FileWatch) -> None:
    """Caches, hidden files, what libraries put into /tmp, links and pipes, and the output."""
    code = """
for name in ('__pycache__', '.cache', '/tmp/ipykernel_1', '/tmp/pymp-x', '/tmp/sub/node_modules'):
    os.makedirs(name, exist_ok=True); open(f'{name}/x', 'w').close()
open('.hidden', 'w').close(); open('/tmp/output/o', 'w').close()
os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe'); open('one', 'w').close(); os.link('one', 'two')
"""
    assert await changed(kernel, watch, code) == []
    await kernel.run("for name in ('/tmp/ipykernel_1', '/tmp/pymp-x'): shutil.rmtree(name)")


async def test_a_working_folder_gives_what_a_person_would_call_a_result(kernel: Kernel, watch: FileWatch) -> None:
    """Whatever it is called, but for hidden files and caches; what is no plain file is named apart."""
    watch = FileWatch(kernel, "/tmp/output", bound=2, work="/workspace")
    await kernel.run(
        "for name in ('matplotlib-figure.png', '.hidden', 'd/.git/x', '__pycache__/x', 'd/a.csv', 'd/b.csv'):\n"
        "    os.makedirs(os.path.dirname(name) or '.', exist_ok=True); open(name, 'w').close()\nos.symlink('/', 'link')"
    )
    found = [(await watch.look())[1] for _ in range(3)]
    names = [sorted(name for name, _, _ in each.files) for each in found]
    assert sorted(name for some in names for name in some) == ["d/a.csv", "d/b.csv", "matplotlib-figure.png"]
    assert [len(each) for each in names] == [2, 1, 0]
    assert [each.odd for each in found] == [[("link", "link")], [], []]
    await kernel.run("os.unlink('link')")


async def test_many_are_counted(kernel: Kernel, watch: FileWatch) -> None:
    """Of many files some are named, the oldest first."""
    await kernel.run("for i in range(300): open(f'{i:03}', 'w').close(); os.utime(f'{i:03}', (i, i))")
    _, _, files, more = await watch.look()
    assert [each.path for each in files] == [f"/workspace/{i:03}" for i in range(MAX_NAMED_CHANGES)]
    assert more == 300 - MAX_NAMED_CHANGES
    assert (await watch.look())[2:] == ([], 0)


async def test_thousands_of_files_cost_nothing(kernel: Kernel, watch: FileWatch) -> None:
    """A look at ten thousand calm files is much cheaper than reading them, and still sees a new one at once."""
    await kernel.run("for i in range(50): os.mkdir(f'd{i}')")
    await kernel.run("for i in range(10_000): open(f'd{i % 50}/{i}', 'w').close()")
    await kernel.run("time.sleep(0.1)")
    started = time.perf_counter()
    await watch.look()
    reading = time.perf_counter() - started
    assert await seconds(watch) < reading / 4
    assert await changed(kernel, watch, "open('d7/new', 'w').close()") == [("/workspace/d7/new", 0)]


async def test_of_thousands_a_write_in_place_is_noticed_in_time(
    kernel: Kernel, watch: FileWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once after a cell that took its time; a little later after one that took none."""
    monkeypatch.setattr("nbagent.kernel.transfer.file_watch.MAX_SEARCH_SECONDS", 5.0)
    await kernel.run("os.mkdir('d')\nfor i in range(6000): open(f'd/{i}', 'w').close()")
    await kernel.run("time.sleep(0.1)")
    await watch.look()
    await watch.look(after=100)
    write = "open('d/5999', 'a').write('x') and None"
    assert await changed(kernel, watch, write, after=100) == [("/workspace/d/5999", 1)]
    await kernel.run("open('d/5000', 'a').write('x') and None")
    found = [await watch.look() for _ in range(25)]
    assert [each.path for _, _, files, _ in found for each in files] == ["/workspace/d/5000"]


async def test_what_a_person_put_there_is_no_cells_doing(kernel: Kernel, watch: FileWatch) -> None:
    """Unless a cell has written to it since."""
    await kernel.run("os.mkdir('given'); open('given/a', 'w').close(); open('given/b', 'w').close()")
    until = int((await kernel.run("time.time_ns()")).text)
    watch.know(file_at("/workspace/given", kernel.about), until=until)
    await kernel.run("time.sleep(0.05); open('given/b', 'w').write('1') and None")
    _, _, files, _ = await watch.look()
    assert [each.path for each in files] == ["/workspace/given/b"]


async def test_names_that_mislead_are_shown_as_what_they_are(kernel: Kernel, watch: FileWatch) -> None:
    """No control, no turned direction, no lone surrogate."""
    named = await changed(kernel, watch, r"open('a\nb\u202ec', 'w').close(); open(b'\xff', 'w').close()")
    assert sorted(named) == [("/workspace/a\ufffdb\ufffdc", 0), ("/workspace/\ufffd", 0)] or len(named) == 2
    for path, _ in named:
        assert path.isprintable()
        path.encode()


def requests(kernel: Kernel) -> int:
    """How many messages the kernel was sent so far."""
    return kernel._process.connection.session.message_count


async def reported(kernel: Kernel, watch: FileWatch, code: str, *, asks: int = 0, **more: Any) -> list[str]:
    """The files in /tmp/output that the reply to a cell told of, or so many further requests."""
    await kernel.run(code, metadata=watch.metadata(), **more)
    before = requests(kernel)
    fresh, _, _, _ = await watch.look(report=kernel.report)
    assert requests(kernel) - before == asks, kernel.report[:100]
    return [name for name, _, _ in fresh.files]


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("open('/tmp/output/x', 'w').close()", {}),
        ("open('/tmp/output/x', 'w').close(); 1/0", {}),
        ("open('/tmp/output/x', 'w').close(); raise KeyboardInterrupt", {}),
        ("open('/tmp/output/x', 'w').close(); raise SystemExit", {}),
        ("open('/tmp/output/x', 'w').close()\nwhile True: time.sleep(0.01)", {"timeout": 0.5}),
        ("open('/tmp/output/x', 'w').close(); signal.signal(signal.SIGINT, lambda *_: None)", {}),
        ("%%time\nopen('/tmp/output/x', 'w').close()", {}),
    ],
)
async def test_the_reply_to_a_cell_tells_what_changed(
    kernel: Kernel, watch: FileWatch, code: str, more: dict[str, Any]
) -> None:
    """Without a second request, however the cell ends; each file once."""
    await kernel.run("import signal; was = signal.getsignal(signal.SIGINT)")
    await watch.look()
    assert await reported(kernel, watch, code, **more) == ["x"]
    assert await reported(kernel, watch, "signal.signal(signal.SIGINT, signal.default_int_handler) and None") == []
    await kernel.run("os.unlink('/tmp/output/x')")


async def test_a_kernel_that_nobody_asked_is_asked_once(kernel: Kernel, watch: FileWatch) -> None:
    """The first cell of a kernel has a second request, and so has the first one after it was replaced."""
    await kernel.run("shutil.rmtree('/tmp/output'); os.mkdir('/tmp/output')")
    assert await reported(kernel, watch, "open('/tmp/output/x', 'w').close()", asks=1) == ["x"]
    assert await reported(kernel, watch, "open('/tmp/output/y', 'w').close()") == ["y"]
    await kernel.restart()
    assert await reported(kernel, watch, "open('/tmp/output/x', 'w').close()", asks=1) == ["x"]
    assert await reported(kernel, watch, "import os, shutil, time\nos.unlink('/tmp/output/x')") == []


async def test_what_nobody_heard_is_told_again(kernel: Kernel, watch: FileWatch) -> None:
    """A reply whose report is lost loses no file, nor what is no plain file; nor is one told twice."""
    await watch.look()
    await kernel.run("open('/tmp/output/x', 'w').close(); os.symlink('/', '/tmp/output/l')", metadata=watch.metadata())
    await kernel.run("open('/tmp/output/y', 'w').close()", metadata=watch.metadata())
    await kernel.run("open('/tmp/output/z', 'w').close()", metadata=watch.metadata())
    fresh, _, _, _ = await watch.look(report=kernel.report)
    assert sorted(name for name, _, _ in fresh.files) == ["x", "y", "z"]
    assert fresh.odd == [("l", "link")]
    fresh, _, _, _ = await watch.look()
    assert (fresh.files, fresh.odd) == ([], [])
    await kernel.run("for name in 'xyzl': os.unlink(f'/tmp/output/{name}')")


async def test_a_report_that_is_too_long_is_asked_for(kernel: Kernel) -> None:
    """Much is told by a request of its own, which takes more than the metadata of a reply does."""
    watch = FileWatch(kernel, "/tmp/output", bound=1000)
    await watch.look()
    made = "for i in range(1000): open(f'/tmp/output/{i:04}' + 'é' * 120, 'w').close()"
    assert len(await reported(kernel, watch, made, asks=1)) == 1000
    await kernel.run("import shutil; shutil.rmtree('/tmp/output'); os.mkdir('/tmp/output')")


HOOKS = ["lambda parent, metadata, reply: metadata",
         "lambda parent, metadata, reply: {'nbagent': 5}",
         "lambda parent, metadata, reply: {'nbagent': 'no JSON'}",
         "lambda parent, metadata, reply: {'nbagent': 'null'}",
         "lambda parent, metadata, reply: {'nbagent': '{\"number\": 1e3, \"trees\": []}'}",
         "lambda parent, metadata, reply: {'nbagent': '{\"number\": 7, \"trees\": [{}, {}, {}, {}]}'}",
         "lambda parent, metadata, reply: {'nbagent': '[' * 500_000}"]  # fmt: skip


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_report_that_was_tampered_with_loses_nothing(kernel: Kernel, watch: FileWatch, hook: str) -> None:
    """Code that puts itself in the place of what makes it has the kernel asked, as if there had been no report."""
    await watch.look()
    await kernel.run(f"kernel = get_ipython().kernel; was = kernel.finish_metadata; kernel.finish_metadata = {hook}")
    assert await reported(kernel, watch, "open('/tmp/output/x', 'w').close()", asks=1) == ["x"]
    await kernel.run("kernel.finish_metadata = was; os.unlink('/tmp/output/x')")
    assert await reported(kernel, watch, "1") == []


async def test_code_that_breaks_what_makes_the_report_breaks_no_reply(kernel: Kernel, watch: FileWatch) -> None:
    """A module that it needs is replaced, or its own state is: the cell ends as ever, and the kernel is asked."""
    await watch.look()
    broken = "was = os.lstat; open('/tmp/output/x', 'w').close()\nos.lstat = None"
    started = time.monotonic()
    cell = await kernel.run(broken, metadata=watch.metadata())
    assert cell.success
    assert not kernel.report
    assert time.monotonic() - started < 15  # the follower's patience with a kernel that doesn't answer
    await kernel.run("os.lstat = was")
    fresh, _, _, _ = await watch.look(report=kernel.report)
    assert [name for name, _, _ in fresh.files] == ["x"]
    await kernel.run("os.unlink('/tmp/output/x')")


async def test_an_interrupt_that_comes_with_the_end_costs_no_reply(kernel: Kernel, watch: FileWatch) -> None:
    """It was meant for the cell; while the report is made it would take the reply along."""
    await watch.look()
    late = (
        "import signal\nwas = os.lstat\ndef slow(*args, **more):\n    os.lstat = was\n"
        "    signal.raise_signal(signal.SIGINT); open('/tmp/output/x', 'w').close(); return was(*args, **more)\n"
        "os.lstat = slow"
    )
    assert await reported(kernel, watch, late) == ["x"]
    await kernel.run("os.unlink('/tmp/output/x')")


LIES = ["None", "[]", "[{}, {}]", "[{}, {}, {}, {}]", "5", "[{'files': 5}] * 4",
        "[{'files': [['a', -1, 0], [1], 5], 'fresh': -1, 'total': 10**30, 'whole': True, 'odd': 5}] * 4",
        "[{'files': [['a', 10**400, 0]], 'fresh': 1, 'total': 1, 'whole': True, 'odd': []}] * 4",
        "[{'files': [['a', 2**63, 2**900]], 'fresh': 1, 'total': 1, 'whole': True, 'odd': []}] * 4",
        "[{'files': [['a', 1, -10**300]], 'fresh': 1, 'total': 1, 'whole': True, 'odd': []}] * 4",
        "[{'files': [['a', 1, 0]] * 1000, 'fresh': 10**30, 'total': 0, 'whole': True, 'odd': [5]}] * 4"]  # fmt: skip


@pytest.mark.parametrize("claim", ["LIE", "{'number': 1, 'trees': LIE}", "{'number': LIE, 'trees': []}"])
@pytest.mark.parametrize("lie", LIES)
async def test_a_sandbox_that_lies_is_not_believed(kernel: Kernel, watch: FileWatch, lie: str, claim: str) -> None:
    await watch.look()
    await kernel.run(f"kept = get_ipython().kernel.__dict__['_nbagent']\nwas = dict(kept)\n"
                     f"for key in kept: kept[key] = {{'main': lambda *_: {claim.replace('LIE', lie)}}}")  # fmt: skip
    fresh, _, files, more = await watch.look()
    await kernel.run("kept.update(was)")
    assert len(files) <= MAX_NAMED_CHANGES
    assert 0 <= more <= 3_000_000
    assert all(0 <= size < 2**63 and abs(changed) < 2**63 for _, size, changed in fresh.files)
    assert all(0 <= each.size < 2**63 for each in files)


async def seconds(watch: FileWatch) -> float:
    """How long a look takes, the middle of many."""
    times = []
    for _ in range(31):
        started = time.perf_counter()
        await watch.look()
        times.append(time.perf_counter() - started)
    return sorted(times)[15]
