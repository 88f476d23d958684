"""Cells that are given up, and cells that run again once what they missed is installed."""

from __future__ import annotations

import asyncio
import time

import machine
import pytest
from kernel.shared import SWALLOW, Events, errors, short
from packages.index import Index

from nbagent.core.errors import NbagentError
from nbagent.core.events import InstallFailed, OutputAdded, OutputsCleared, PackagesInstalled
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.runner import MAX_INSTALLS
from nbagent.sandbox.contract import Engine

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_cancelled_run_stops_its_cell(engine: Engine) -> None:
    """Who gives up on a cell stops it: the next one runs at once, with the variables."""
    # More than a busy machine needs to stop a cell: after the grace period, the kernel would be replaced.
    async with Kernel(engine, short(grace=15)) as kernel:
        await kernel.run("kept = 7")
        running = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
        await asyncio.sleep(20 * machine.pace())  # so that its code runs
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        started = time.monotonic()
        assert (await kernel.run("kept")).text == "7"
        assert time.monotonic() - started < 30


async def test_a_cancelled_cell_that_does_not_stop_costs_the_kernel(kernel: Kernel) -> None:
    """If its cell doesn't stop, the kernel is replaced before the cancellation is over."""
    running = asyncio.create_task(kernel.run(SWALLOW))
    await asyncio.sleep(0.3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await kernel.run("1 + 1")).text == "2"


async def test_stopping_ends_a_running_cell(engine: Engine) -> None:
    """Who stops the kernel ends its cell with an error, and leaves nothing behind."""
    kernel = Kernel(engine, short())
    await kernel.start()
    running = asyncio.create_task(kernel.run("import time; time.sleep(100)"))
    await asyncio.sleep(0.3)
    await kernel.stop()
    with pytest.raises(NbagentError):
        await asyncio.wait_for(running, 60)


async def test_a_missing_module_is_installed(kernel: Kernel, packages: Index, events: Events) -> None:
    """The distribution is installed, the cell goes on, and its error is taken back."""
    packages.add("automatic", "1.2")
    cell = await kernel.run("print('before')\nimport automatic\nautomatic.version")
    assert (cell.status, cell.text) == ("ok", "before\n'1.2'")
    assert [(each.name, each.version, each.requested) for each in cell.installed] == [("automatic", "1.2", True)]
    assert [each.packages for each in events.of(PackagesInstalled)] == [cell.installed]
    assert events.of(OutputsCleared)
    assert (await kernel.run("import automatic")).installed == []


async def test_a_cell_that_runs_again_draws_the_same_numbers(kernel: Kernel, packages: Index) -> None:
    """Those that it drew before it missed a module, so that it shows them where the module is there, too."""
    packages.add("late")
    seeds = "import random, numpy as np; random.seed(7); np.random.seed(7); own = random.Random(7)\n"
    seeds += "rng = np.random.default_rng(7); old = np.random.RandomState(7)"
    draws = "[random.random(), np.random.random(), own.random(), rng.random(), old.random()]"
    await kernel.run(seeds)
    cell = await kernel.run(f"drawn = {draws}\nimport late\ndrawn")
    await kernel.run(seeds)
    assert cell.installed
    assert cell.text == (await kernel.run(draws)).text


@pytest.mark.parametrize("before", ["", "oncelate"])
async def test_a_cell_that_runs_again_for_whatever_error_draws_the_same_numbers(
    kernel: Kernel, packages: Index, before: str
) -> None:
    """As for pandas' `AttributeError`, or Beautiful Soup's own; also where it went on at a missing module before."""
    for name in filter(None, (before, f"lacked{before}")):
        packages.add(name)
    seeds = "import random, numpy as np; random.seed(7); np.random.seed(7); own = random.Random(7)\n"
    seeds += "system = random.SystemRandom(); rng = np.random.default_rng(7); old = np.random.RandomState(7)"
    draws = "[random.random(), np.random.random(), own.random(), rng.random(), old.random()]"
    await kernel.run(f"{seeds}\nclass FeatureNotFound(ValueError): pass")
    lacks = (
        f"try:\n    import lacked{before}\nexcept ImportError:\n    raise FeatureNotFound('pip install lacked{before}')"
    )
    cell = await kernel.run(
        f"drawn = {draws}\n{f'import {before}' if before else ''}\ndrawn += {draws}\n{lacks}\ndrawn"
    )
    assert (cell.status, len(cell.installed)) == ("ok", 2 if before else 1), cell.note
    await kernel.run(seeds)
    assert cell.text == (await kernel.run(f"{draws} + {draws}")).text


async def test_what_ran_before_a_missing_module_runs_once(kernel: Kernel, packages: Index, events: Events) -> None:
    """State, output, history and numbers are what they are where the module is there; so with two such modules."""
    for name in ("onelate", "twolate", "threelate"):
        packages.add(name)
    await kernel.run("n = 0")
    code = "n += 1; import onelate\nn += 10\nprint('a', end='')\nimport twolate; n += 100\nprint(n)\nn"
    events.clear()
    cell = await kernel.run(code)
    assert (cell.status, cell.text) == ("ok", "a111\n111")
    assert len(cell.installed) == 2
    shown = [each.output for each in events.of(OutputAdded)]
    assert [each["output_type"] for each in shown][-1] == "execute_result"
    assert (await kernel.run("In[-2], In[-1]")).text.count("import onelate") == 1
    # Within a statement, nothing says how far it came: the whole cell runs again.
    cell = await kernel.run("n = n + 1\nfor each in range(2):\n    print(each)\n    import threelate\nn")
    assert (cell.text, bool(cell.installed)) == ("0\n1\n113", True)
    cell = await kernel.run("n = n + 1; import never_heard_of\nn")
    assert errors(cell) == ["ModuleNotFoundError"]
    assert (await kernel.run("n = n + 1; import onelate\nn")).text == "115"


async def test_a_cell_gets_each_module_that_it_misses(kernel: Kernel, packages: Index) -> None:
    """A cell that misses several modules gets them all."""
    for name in ("onemore", "twomore"):
        packages.add(name)
    cell = await kernel.run("import onemore, twomore; onemore.version + twomore.version")
    assert cell.text == "'1.01.0'"
    assert [each.name for each in cell.installed] == ["onemore", "twomore"]


async def test_a_module_that_no_index_has_stays_the_codes_error(kernel: Kernel, events: Events) -> None:
    """A module that no index has stays the code's error, with the reason in the note; the cell ran once."""
    cell = await kernel.run("print('once'); import invented_by_a_model")
    assert errors(cell) == ["ModuleNotFoundError"]
    assert "Not installed" in cell.note
    assert "invented-by-a-model" in cell.note
    assert cell.text == "once"
    assert len(events.of(InstallFailed)) == 1


async def test_a_package_without_the_module_is_installed_once(kernel: Kernel, packages: Index) -> None:
    """Installed and still not there: one attempt a module, no loop."""
    packages.add("hollow", files={"other_name.py": ""})
    started = time.monotonic()
    cell = await kernel.run("import hollow")
    assert errors(cell) == ["ModuleNotFoundError"]
    assert len(packages.requests) < 200
    assert time.monotonic() - started < 30


async def test_a_cell_that_is_stopped_during_an_install_does_not_run_again(kernel: Kernel, packages: Index) -> None:
    """A person who stops a cell while its module is installed has stopped it: it doesn't run again."""
    packages.add("slow")
    packages.slow = True
    try:
        running = asyncio.create_task(kernel.run("import slow; print('ran')"))
        while not any("slow" in each for each in packages.requests):
            await asyncio.sleep(0.02)
        kernel.interrupt()
        await asyncio.sleep(0.1)
    finally:
        packages.slow = False
        packages.delay.set()
    cell = await asyncio.wait_for(running, 60)
    packages.delay.clear()
    assert "ran" not in cell.text
    assert cell.status in ("interrupted", "error")


async def test_a_package_of_many_parts_leaves_room_for_others(kernel: Kernel, packages: Index) -> None:
    """What one cell may have installed is counted in modules: what these bring along doesn't count."""
    parts = tuple(packages.add(f"part{n}") and f"part{n}" for n in range(MAX_INSTALLS + 1))
    packages.add("whole", requires=parts)
    packages.add("beside")
    cell = await kernel.run("import whole, beside; beside.version")
    assert cell.text == "'1.0'"
    assert len(cell.installed) == len(parts) + 2


async def test_modules_are_bounded(kernel: Kernel, packages: Index) -> None:
    """A cell that misses one more than it may have installed ends with that error, and says what it got."""
    names = [packages.add(f"many{n}") and f"many{n}" for n in range(MAX_INSTALLS + 1)]
    cell = await kernel.run(f"import {', '.join(names)}")
    assert errors(cell) == ["ModuleNotFoundError"]
    assert [each.name for each in cell.installed] == names[:-1]
