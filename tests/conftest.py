"""Fixtures of all tests: a home that is nobody's, the engines, and the check that nothing is left at the end."""

from __future__ import annotations

import fcntl
import gc
import inspect
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import platformdirs
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# The tests start hundreds of programs. Where nothing compiled is kept, each compiles all that it imports, which takes
# as long again as what it is started for.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A slow machine is no failure.
hypothesis.settings.register_profile("nbagent", deadline=None)
hypothesis.settings.load_profile("nbagent")
pytest.register_assert_rewrite("machine", "sandbox.contract")

import machine  # noqa: E402 - rewritten, since it asserts
from program import Forks  # noqa: E402

from nbagent.sandbox.contract import Engine  # noqa: E402

FOLDERS = {
    "HOME": "home",
    "IPYTHONDIR": "home/ipython",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_RUNTIME_DIR": "runtime",
    "XDG_STATE_HOME": "state",
}


ENGINE = re.compile(r"[\[-](bubblewrap|docker)(?=[]-])")
LONG = tuple(
    f"tests/{each}.py"
    for each in (
        *("test_docs", "session/test_owner_death", "session/test_controller_death", "agent/test_sandbox_tools"),
        *("agent/test_providers", "safety/sanitize/test_browser", "faces/test_selfcheck", "test_notebooks"),
        "notebook/compare/test_honest_cells",
        *(f"faces/lab/browser/test_{name}" for name in ("panel", "access", "bad_input")),
    )
)
"""Files that take longer than the number of their tests, and where they are, let expect."""
QUICK = re.compile("tests/(agent|core|evals|observability|safety)/")
"""Files that start few sandboxes or none: they fill what time is left at the end."""
NEEDS = ("docker", "root")
NEED_ROOT = frozenset({"whole_world", "below", "noted", "other_first", "hierarchy"})
"""Fixtures that make networks, file systems, control groups and users, which only root can everywhere."""


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Keeps a file's tests of one engine together, since they share kernels, and begins the files that take longest."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/test_docs.py"):  # the longest of all; its functions share nothing that is costly
            return nodeid.partition("[")[0]
        file, found = nodeid.partition("::")[0], ENGINE.search(nodeid)
        return f"{file} {found[1]}" if found else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=self._place), last=False)
        super()._assign_work_unit(node)

    def _place(self, scope: str) -> tuple[bool, bool, int]:
        return not scope.startswith(LONG), bool(QUICK.match(scope)), -len(self.workqueue[scope])


@pytest.hookimpl(optionalhook=True)  # for `-p no:xdist`
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongestFirst | None:
    """On several processes, `--dist loadfile` also puts the files that take longest first."""
    return LongestFirst(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--without docker` and `--without root`, for machines that have no daemon, and for ordinary users."""
    parser.addoption("--without", action="append", default=[], choices=NEEDS, help="leave out the tests that need this")


@pytest.hookimpl(trylast=True)  # after the terminal
def pytest_configure(config: pytest.Config) -> None:
    """The mark of the tests that need more than Linux and bubblewrap; and what tells of failures."""
    if terminal := config.pluginmanager.get_plugin("terminalreporter"):
        config.pluginmanager.register(AtOnce(terminal))
    config.addinivalue_line("markers", f"needs(*parts): what else there must be; any of {', '.join(NEEDS)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was asked for; pytest says how many these are. Nothing is ever left out by itself."""
    without = set(config.getoption("--without"))
    left_out = [each for each in items if without & _needs(each)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [each for each in items if each not in set(left_out)]


def pytest_collection_finish() -> None:
    """Never look for garbage in what the tests are made of: a million objects, seconds each time."""
    gc.freeze()


def _needs(item: pytest.Item) -> set[str]:
    """What a test is marked with, and the engine that it is for."""
    needs = {part for mark in item.iter_markers("needs") for part in mark.args}
    needs |= {"root"} if NEED_ROOT.intersection(getattr(item, "fixturenames", ())) else set()
    given = getattr(item, "callspec", None)  # a test without parameters has none
    return needs | ({"docker"} if given is not None and "docker" in given.params.values() else set())


class AtOnce:
    """Says at once what failed, and how: where the run is ended from outside, there is no summary that would."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A line: the test's name, the part that failed, and the first line of what the error says."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = str(crash.message if crash else report.longrepr or "").strip().partition("\n")[0]
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {report.nodeid} in {report.when}, {report.duration:.1f} s: {why:.200}")


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """The program, imported already."""
    with Forks(tmp_path_factory.mktemp("forks")) as forks:
        yield forks


@pytest.fixture
def look() -> Iterator[Callable[[Path], None]]:
    """Has a lock held for a moment, as who lists sessions holds it."""
    timers = []

    def hold(path: Path) -> None:
        lock = path.open("rb")
        fcntl.flock(lock, fcntl.LOCK_SH)
        timers.append(threading.Timer(0.1, lock.close))
        timers[-1].start()

    yield hold
    for each in timers:
        each.join()


@pytest.fixture(scope="session", autouse=True)
def home() -> Iterator[Path]:
    """A home, state and runtime folder of this run's own; of the cache only what is costly to make is shared.

    At the end nothing of a sandbox may be left in them, nor with the daemon, nor among processes and control groups.
    """
    # A socket's path must be short, so it isn't below pytest's own folder.
    folder = Path(tempfile.mkdtemp(prefix="nbt-", dir="/tmp"))
    # The sandbox's own user must get to what is mounted from there.
    folder.chmod(0o755)
    environments = platformdirs.user_cache_path("nbagent") / "environments"
    uv = os.environ.get("UV_CACHE_DIR") or str(platformdirs.user_cache_path("uv"))
    for name in FOLDERS.values():
        (folder / name).mkdir(mode=0o700)
    (folder / "cache" / "nbagent").mkdir()
    (folder / "cache" / "nbagent" / "environments").symlink_to(environments)
    with pytest.MonkeyPatch.context() as patch:
        for variable, name in FOLDERS.items():
            patch.setenv(variable, str(folder / name))
        patch.setenv("UV_CACHE_DIR", uv)
        yield folder
        left = machine.wait_for_nothing(folder)
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"this run left behind: {', '.join(left)}"


@pytest.fixture
def contained() -> Iterator[list[str]]:
    """What `errors.contained` kept from costing more; a test that asks for this expects it."""
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("nbagent.core.errors")
    logger.addHandler(handler)
    yield told
    logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def _nothing_is_hidden(request: pytest.FixtureRequest) -> Iterator[None]:
    """A programming error that was contained still fails the test in which it happened."""
    told: list[str] = request.getfixturevalue("contained")
    yield
    # `fixturenames` has it for this fixture's sake; only a test that takes it as an argument expects something.
    assert not told or "contained" in inspect.signature(request.function).parameters, told


@pytest.fixture
def leftovers(home: Path) -> Callable[[], list[str]]:
    """Tells what there is of this run's sandboxes, those that live included."""
    return lambda: sorted(machine.leftovers(home))


@pytest.fixture(scope="module", params=machine.ISOLATING)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine that isolates; never skipped."""
    return machine.works(request.param)


@pytest.fixture
def more(leftovers: Callable[[], list[str]]) -> Callable[[], list[str]]:
    """What is left of sandboxes that were started since the test began, once what is ending has ended."""
    before = set(leftovers())

    def look() -> list[str]:
        end = time.monotonic() + 60
        while (left := sorted(set(leftovers()) - before)) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    return look
