"""The host's installer, with a real uv and a package index of the test's own on loopback."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from packages.index import PLATFORM, PYTHON, Index, Make, children, python, refused, tree

from nbagent.core.errors import EnvironmentMissing, InstallError, InstallRefused
from nbagent.core.events import Package
from nbagent.packages.installer import Installer
from nbagent.packages.pinned import fill
from nbagent.packages.uv import IndexUnreachableError

pytestmark = pytest.mark.usefixtures("own_uv")


# -- what succeeds


async def test_a_package_and_its_dependency_can_be_imported(index: Index, make: Make, site: Path) -> None:
    """They are unpacked into the site folder, and recorded with the hash of the exact wheel."""
    app, lib = index.add("my-app", requires=("lib>=1",)), index.add("Lib", "1.5")
    installer = make()
    added = await installer.install(["My.App"])
    assert sorted(added, key=lambda package: package.name) == [
        Package("lib", "1.5", lib, requested=False),
        Package("my-app", "1.0", app, requested=True),
    ]
    assert installer.installed == {package.name: package for package in added}
    code = f"import sys; sys.path.append({str(site)!r}); import my_app, Lib; print(my_app.version, Lib.version)"
    assert python(code) == "1.0 1.5\n"


async def test_what_is_there_needs_no_work(index: Index, make: Make) -> None:
    """A package of the sandbox, or one that was installed before, asks no index."""
    index.add("app")
    installer = make()
    assert await installer.install(["numpy>=2"]) == []
    assert index.requests == []
    assert len(await installer.install(["app"])) == 1
    asked = len(index.requests)
    assert await installer.install(["app", "app==1.0", "numpy"]) == []
    assert len(index.requests) == asked


async def test_concurrent_requests_take_turns(index: Index, make: Make) -> None:
    """Of two requests for the same package one does the work."""
    index.add("app")
    installer = make()
    results = await asyncio.gather(installer.install(["app"]), installer.install(["app"]))
    assert sorted(len(added) for added in results) == [0, 1]


async def test_a_resumed_session_knows_what_is_installed(index: Index, make: Make) -> None:
    """A new installer on the same site folder has the old one's packages, without asking."""
    index.add("app")
    first = make()
    await first.install(["app"])
    asked = len(index.requests)
    second = make()
    assert second.installed == first.installed
    assert await second.install(["app"]) == []
    assert len(index.requests) == asked


# -- what is refused


async def test_an_empty_request_is_refused(make: Make) -> None:
    assert isinstance(await refused(make(), match="Nothing was named"), InstallRefused)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"enabled": False}, "switched off"),
        ({"deny": frozenset({"App"})}, "denies the package app"),
        ({"deny": frozenset({"LIB"})}, "denies the package lib, which is a dependency"),
        ({"allow": frozenset({"other"})}, "does not allow the package app. Allowed: other"),
    ],
)
async def test_policy_decides_by_normalised_names_and_for_dependencies(
    policy: dict[str, Any], reason: str, index: Index, make: Make
) -> None:
    """Names are compared in normalised form; deny reaches dependencies too."""
    index.add("app", requires=("lib",))
    index.add("lib")
    assert isinstance(await refused(make(**policy), "APP", match=reason), InstallRefused)


async def test_dependencies_of_an_allowed_package_come_along(index: Index, make: Make) -> None:
    """The allow list is about what is asked for."""
    index.add("app", requires=("lib",))
    index.add("lib")
    assert len(await make(allow=frozenset({"App"})).install(["app"])) == 2


async def test_an_installed_version_is_not_replaced(index: Index, make: Make) -> None:
    """The running kernel may have imported it; the error says that a restart is needed."""
    index.add("app", "1.0")
    index.add("app", "2.0")
    index.add("needs-two", requires=("app>=2",))
    installer = make()
    await installer.install(["app<2"])
    await refused(installer, "app==2.0", match="installed in this session.*Restart needed")
    await refused(installer, "needs-two", match="No versions fit together")


# -- cancelled


async def test_a_cancelled_install_leaves_nothing(index: Index, make: Make, site: Path) -> None:
    """Neither uv nor a staging folder, and the next request isn't blocked."""
    index.add("app")
    installer = make()
    index.slow = True
    task = asyncio.create_task(installer.install(["app"]))
    assert await asyncio.to_thread(index.arrived.wait, 20)
    assert children() != []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == []
    assert tree(site) == {}
    index.slow = False
    assert len(await installer.install(["app"])) == 1


def test_a_loop_that_ends_is_not_held_up(index: Index, make: Make, site: Path) -> None:
    """Wherever an install stands when its event loop ends, it stops, and takes uv and the staging folder along."""
    index.add("app")
    index.slow = True

    async def leave(turns: int) -> None:
        left = asyncio.ensure_future(make().install(["app"]))
        for _ in range(turns):
            await asyncio.sleep(0.002 if turns > 6 else 0)
        assert not left.done()

    for turns in range(10):
        thread = threading.Thread(target=asyncio.run, args=(leave(turns),), daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert children() == []
    assert tree(site) == {}


# -- by module


async def test_a_module_is_installed_from_its_distribution(index: Index, make: Make) -> None:
    """`yaml` comes from PyYAML, once: a second request for the module is refused without work."""
    index.add("PyYAML", files={"yaml/__init__.py": ""})
    installer = make()
    assert [package.name for package in await installer.install_module("yaml.nodes")] == ["pyyaml"]
    asked = len(index.requests)
    for module, reason in (
        ("yaml.nodes", "once in this session"),
        ("yaml.other", r"PyYAML 1\.0 is installed, and has"),
    ):
        with pytest.raises(InstallError, match=reason):
            await installer.install_module(module)
    assert len(index.requests) == asked


async def test_a_distribution_without_the_module_is_not_installed(index: Index, make: Make, site: Path) -> None:
    """A guess that brings something else is undone, and not tried again."""
    index.add("thing", files={"other/__init__.py": ""})
    installer = make()
    for _ in range(2):
        with pytest.raises(InstallRefused, match=r"thing 1\.0 doesn't contain the module thing"):
            await installer.install_module("thing")
        assert tree(site) == {}
    assert len([path for path in index.requests if path.startswith("/simple/")]) == 1


async def test_a_module_of_the_sandbox_is_not_installed(index: Index, make: Make) -> None:
    """If the sandbox has the distribution and not the module, there is nothing to add."""
    with pytest.raises(InstallError, match=r"pyzmq 27\.1\.0 is installed, and has no module zmq\.unheard_of"):
        await make().install_module("zmq.unheard_of")
    assert index.requests == []


async def test_trouble_with_the_index_is_no_answer_for_a_module(index: Index, make: Make) -> None:
    """When the index is back, the same module is tried again; a name that doesn't exist is not."""
    index.add("thing")
    installer = make()
    index.failures = 1000
    with pytest.raises(IndexUnreachableError):
        await installer.install_module("thing")
    index.failures = 0
    assert len(await installer.install_module("thing")) == 1
    for _ in range(2):
        with pytest.raises(InstallRefused, match="no distribution called invented"):
            await installer.install_module("invented")
    assert index.requests.count("/simple/invented/") == 1


async def test_installers_of_one_kernel_ask_once_for_a_module(index: Index, make: Make) -> None:
    """A kernel of another client has one for each request, all of which know what the earlier ones were told."""
    one = make()
    answers: dict[str, InstallError] = {}
    for _ in range(2):
        again = Installer(one.site, target=one.target, policy=one.policy, answers=answers)
        with pytest.raises(InstallRefused, match="no distribution called invented"):
            await again.install_module("invented")
    assert index.requests.count("/simple/invented/") == 1


# -- a whole requirements file


def test_fill_makes_a_folder_from_hashed_requirements(index: Index, tmp_path: Path) -> None:
    """All of the file, readable for everybody."""
    pins = tmp_path / "requirements.txt"
    pins.write_text("".join(f"{name}==1.0 --hash=sha256:{index.add(name, days=0)}\n" for name in ("one", "two")))
    folder = tmp_path / "made" / "env"
    before = os.umask(0o077)
    try:
        fill(folder, pins=pins, python=PYTHON, platform=PLATFORM)
    finally:
        os.umask(before)
    assert sorted(path.name for path in folder.glob("*/__init__.py")) == ["__init__.py", "__init__.py"]
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in [folder, *folder.rglob("*")])
    assert [path.name for path in folder.parent.iterdir()] == ["env"]
    with pytest.raises(EnvironmentMissing, match="is not empty"):
        fill(folder, pins=pins, python=PYTHON, platform=PLATFORM)


@pytest.mark.parametrize("line", ["one==1.0 --hash=sha256:" + "0" * 64, "one==1.0"])
def test_fill_accepts_only_what_the_hashes_say(line: str, index: Index, tmp_path: Path) -> None:
    index.add("one")
    pins = tmp_path / "requirements.txt"
    pins.write_text(f"{line}\n")
    with pytest.raises(EnvironmentMissing, match=r"can't be installed: .*[Hh]ash"):
        fill(tmp_path / "made" / "env", pins=pins, python=PYTHON, platform=PLATFORM)
    assert list((tmp_path / "made").iterdir()) == []


# -- the real index


async def test_the_real_index_serves_a_small_package(make: Make, site: Path) -> None:
    """With the person's own configuration: resolved, old enough, fetched, importable."""
    (added,) = await make().install_module("humanize")
    assert (added.name, added.requested, len(added.sha256)) == ("humanize", True, 64)
    code = f"import sys; sys.path.append({str(site)!r}); import humanize; print(humanize.intcomma(12345))"
    assert python(code) == "12,345\n"
