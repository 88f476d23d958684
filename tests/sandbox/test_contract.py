"""An engine of somebody else's, in one file, found by its entry point: what is above needs to know nothing of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from sandbox.elsewhere import ElsewhereEngine

from nbagent import Session
from nbagent.core.errors import InstallRefused, LimitUnenforceable, SandboxError, UsageError
from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox import registry
from nbagent.sandbox.contract import Engine, Hooks
from nbagent.sandbox.spec import ACCEPTABLE, SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")
TRUSTED = trust_for(TrustLevel.TRUSTED, grace=10.0)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Installed like any package: by its entry points."""
    folder = tmp_path_factory.mktemp("site")
    about = folder / "elsewhere-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[nbagent.engines]\nelsewhere = sandbox.elsewhere:ENGINE\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(folder)])
        registry.engines.cache_clear()
        yield
    registry.engines.cache_clear()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def elsewhere(installed: None) -> Engine:
    """The engine, by its name."""
    del installed
    return await registry.choose("elsewhere")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there(elsewhere: Engine) -> AsyncIterator[Kernel]:
    """A kernel of it for all tests."""
    async with Kernel(elsewhere, SandboxSpec(trust=TRUSTED)) as made:
        yield made


async def test_cells_run_and_keep_their_state(there: Kernel) -> None:
    """Text, values and errors come as from any engine, over another transport."""
    await there.run("x = 20")
    cell = await there.run("print('said'); x + 1")
    assert (cell.status, cell.text.split()) == ("ok", ["said", "21"])
    assert (await there.run("1 / 0")).status == "error"
    assert await there.evaluate("def main(a): return a + 1", [4]) == 5


async def test_what_runs_too_long_is_interrupted(there: Kernel) -> None:
    """By a message on the control channel, after which the kernel goes on."""
    await there.run("kept = 1")
    cell = await there.run("import time; time.sleep(600)", timeout=0.5)
    assert cell.status == "timeout"
    assert (await there.run("kept")).text == "1"


async def test_a_death_is_told_and_mended(there: Kernel) -> None:
    """With the code of its end; another process takes its place, under the same name."""
    name = there.id
    cell = await there.run("import os; os._exit(3)")
    assert cell.status == "died"
    assert "exited with code 3" in cell.state_lost
    assert ((await there.run("1 + 1")).text, there.id) == ("2", name)


async def test_what_it_can_t_do_is_a_sentence(there: Kernel, elsewhere: Engine) -> None:
    """Installs, hand-overs and take-overs are capabilities, which an engine may not have."""
    with pytest.raises(InstallRefused, match="sandbox of the elsewhere engine"):
        await there.install(["humanize"])
    cell = await there.run("import nothing_of_the_kind")
    assert "ModuleNotFoundError" in str(cell.outputs)
    with pytest.raises(SandboxError, match="handed over"):
        await Kernel(elsewhere, there.spec).start_from(there, patience=1)
    assert (there.memory_peak(), there.about.left_out) == (None, {})


async def test_a_session_has_all_of_it(elsewhere: Engine, tmp_path: Path) -> None:
    """Its files, its log and its notebook, and no process at the end."""
    async with Session(engine=elsewhere.name, trust="trusted", state_dir=str(tmp_path)) as session:
        cell = await session.run("import os; open('made.txt', 'w').write('here'); os.getpid()")
        assert cell.status == "ok"
        notebook = await session.export(tmp_path / "notebook.ipynb")
    assert '"display_name": "Python (elsewhere)"' in Path(notebook).read_text()
    assert not Path(f"/proc/{cell.text}").exists()


@pytest.mark.parametrize("level", [TrustLevel.ISOLATED, TrustLevel.UNTRUSTED])
async def test_code_that_is_not_trusted_needs_an_engine_that_isolates(elsewhere: Engine, level: TrustLevel) -> None:
    """Whoever wrote the engine: it is refused before anything of it runs, in a session, too."""
    spec = SandboxSpec(trust=trust_for(level), accept=frozenset(ACCEPTABLE))
    with pytest.raises(UsageError, match="The elsewhere engine isolates nothing"):
        await Kernel(elsewhere, spec).start()
    with pytest.raises(UsageError, match="The elsewhere engine isolates nothing"):
        async with Session(engine=elsewhere.name, trust=level.value, accept=sorted(ACCEPTABLE)):
            pass


async def test_a_named_engine_must_enforce_the_limits(elsewhere: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its report says it doesn't enforce is refused, unless a person accepted it."""
    monkeypatch.setattr(ElsewhereEngine, "isolates", True)
    with pytest.raises(LimitUnenforceable, match="limit on memory here: nobody's business"):
        await registry.choose(elsewhere.name, specs=[SandboxSpec()])
    accepting = SandboxSpec(accept=frozenset({"memory"}))
    assert await registry.choose(elsewhere.name, specs=[accepting]) is elsewhere


async def test_engines_say_themselves_which_is_best(
    elsewhere: Engine, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their rank; one that has none is chosen by nobody; one that is demanded is the only one."""
    del installed
    assert elsewhere not in registry.automatic()
    monkeypatch.setattr(ElsewhereEngine, "rank", 15)
    assert [each.name for each in registry.automatic()] == ["docker", "elsewhere", "bubblewrap"]
    monkeypatch.setattr(ElsewhereEngine, "is_demanded", True)
    assert registry.automatic() == [elsewhere]


async def test_the_default_end_of_a_sandbox_that_can_t_be_left(elsewhere: Engine) -> None:
    """Who lets go of it ends it: it would be nobody's."""
    sandbox = elsewhere.sandbox(Hooks())
    await sandbox.start(SandboxSpec(trust=TRUSTED))
    pid = sandbox._process.pid  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGCONT)
    await sandbox.detach()
    assert not Path(f"/proc/{pid}").exists()
