"""What is installed for a kernel: by a cell, by `%pip`, by a person; and what policy refuses."""

from __future__ import annotations

import pytest
from kernel.shared import Events, errors
from packages.index import Index

from nbagent.core.errors import InstallRefused
from nbagent.core.events import IndexAsked, InstallFailed, PackagesInstalled
from nbagent.core.policy import InstallPolicy
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_release_that_is_too_young_is_refused_by_policy(
    kernel: Kernel, packages: Index, events: Events
) -> None:
    packages.add("young", days=0.1)
    cell = await kernel.run("import young")
    assert errors(cell) == ["ModuleNotFoundError"]
    assert "Not installed" in cell.note
    assert events.of(InstallFailed)


async def test_a_denied_name_is_refused_wherever_it_comes_from(engine: Engine, packages: Index) -> None:
    """A name that policy denies is refused wherever it comes from."""
    packages.add("denied")
    spec = SandboxSpec(install=InstallPolicy(deny=frozenset({"denied"})))
    told = Events()
    async with Kernel(engine, spec, notify=told.append) as kernel:
        assert errors(await kernel.run("import denied")) == ["ModuleNotFoundError"]
        cell = await kernel.run("%pip install denied")
        assert "Not installed" in str(cell.outputs)
        with pytest.raises(InstallRefused):
            await kernel.install(["denied"])
        assert [each.refused for each in told.of(InstallFailed)] == [True] * 3


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("%pip install {}", "magic"),
        ("%pip install -q '{}'", "quoted"),
        ("!pip install {}", "shelled"),
        ("  !python -m pip install -q {}", "indented"),
        ("!uv pip install {}==1.0", "pinned"),
        ("%pip install {} {}", "twice"),
    ],
)
async def test_every_form_of_pip_install_in_a_cell_goes_to_the_host(
    kernel: Kernel, packages: Index, events: Events, command: str, name: str
) -> None:
    """However a person says `pip install`, it is the host's installer that does it, and the module is there."""
    packages.add(name)
    cell = await kernel.run(command.strip().format(name, name) + f"\nimport {name}\n{name}.version")
    assert cell.text.endswith("'1.0'"), cell
    assert [each.packages[0].name for each in events.of(PackagesInstalled)] == [name]


@pytest.mark.parametrize(
    "wanted",
    ["git+https://example.com/x", "./wheel.whl", "/tmp/x", "x @ file:///etc/passwd", "--index-url=http://x y", "$(x)"],
)
async def test_pip_takes_names_only(kernel: Kernel, wanted: str) -> None:
    """Addresses, paths and options are refused, and the kernel goes on."""
    cell = await kernel.run(f"%pip install {wanted}")
    assert cell.status == "ok"
    assert "Not installed" in str(cell.outputs) or "can only install" in str(cell.outputs)


async def test_a_script_block_installs(kernel: Kernel, packages: Index) -> None:
    """The dependencies of a PEP 723 block are there before the cell runs."""
    packages.add("declared", "2.0")
    cell = await kernel.run("# /// script\n# dependencies = ['declared>=1']\n# ///\nimport declared; declared.version")
    assert cell.text.endswith("'2.0'")
    assert "can't be read" in str((await kernel.run("# /// script\n# dependencies = [\n# ///\n")).outputs)


async def test_packages_survive_a_restart(kernel: Kernel, packages: Index) -> None:
    """A new kernel of the same session still has what was installed."""
    packages.add("lasting")
    assert [each.name for each in await kernel.install(["lasting"])] == ["lasting"]
    await kernel.restart()
    assert (await kernel.run("import lasting; lasting.version")).text == "'1.0'"


async def test_packages_are_read_only_inside(kernel: Kernel, packages: Index) -> None:
    """Code can't change what was installed, nor put anything beside it."""
    packages.add("firm")
    await kernel.install(["firm"])
    for code in ("import firm; open(firm.__file__, 'a')", "open('/opt/site/x.pth', 'w')"):
        assert errors(await kernel.run(code))[0] in ("OSError", "PermissionError")


async def test_names_are_no_way_out(engine: Engine, packages: Index) -> None:
    """Of a thousand that a cell makes up the index hears ten, whatever was restarted, and each is told."""
    told = Events()
    packages.requests.clear()
    ask = "for n in range({}): get_ipython().run_line_magic('pip', f'install {}-{{n}}')"
    async with Kernel(engine, SandboxSpec(), notify=told.append) as kernel:
        cell = await kernel.run(ask.format(1000, "leak"))
        assert "--unknown-names" in str(cell.outputs)
        await kernel.restart()
        await kernel.run(ask.format(20, "again"))
        assert errors(await kernel.run("import leaked")) == ["ModuleNotFoundError"]
    names = list(dict.fromkeys(path.split("/")[2] for path in packages.requests))
    assert names == [f"leak-{number}" for number in range(10)]
    assert [each.names for each in told.of(IndexAsked)] == [[name] for name in names]
