"""What is in a wheel and what of it gets into the site folder: honest, hostile and broken ones."""

from __future__ import annotations

import contextlib
import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from packages.index import Index, Make, refused

from nbagent.core.errors import InstallError, InstallRefused

pytestmark = pytest.mark.usefixtures("own_uv")

SCRIPTS = ("console_scripts", "gui_scripts")
"""The sections of entry points of which installers make programs."""


# -- what is moved in


async def test_everybody_can_read_what_was_installed(index: Index, make: Make, site: Path) -> None:
    """The sandbox has another uid, so a person's umask of 077 must not reach it; nobody else may write."""
    index.add("app", files={"app/__init__.py": "", "app/deep/er.py": ""})
    before = os.umask(0o077)
    try:
        await make().install(["app"])
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [site, *site.rglob("*")] if path.is_dir()}
    assert modes == {0o755}
    assert {stat.S_IMODE(path.stat().st_mode) for path in site.rglob("*") if path.is_file()} == {0o644}


async def test_the_cache_shares_no_file_with_the_site_folder(index: Index, make: Make, site: Path) -> None:
    """Uv's default would link them hard, and then they would have one mode and one content."""
    index.add("app")
    await make().install(["app"])
    assert {path.stat().st_nlink for path in site.rglob("*") if path.is_file()} == {1}


async def test_scripts_of_the_host_are_left_out(index: Index, make: Make, site: Path) -> None:
    """An entry point's script would name the host's Python; the folder for scripts goes when nothing else is in it."""
    points = {"app-1.0.dist-info/entry_points.txt": "[console_scripts]\napp = app:main\n"}
    index.add("app", files={"app/__init__.py": "def main(): ...\n", **points})
    await make().install(["app"])
    assert sorted(path.name for path in site.iterdir()) == ["app", "app-1.0.dist-info"]


async def test_a_known_harmless_pth_is_left_out(index: Index, make: Make, site: Path) -> None:
    """Old namespace packages and setuptools carry one that a site folder has no use for."""
    index.add("space", files={"space/one.py": "", "space-1.0-nspkg.pth": "import sys\n"})
    await make().install(["space"])
    assert list(site.rglob("*.pth")) == []


async def test_namespace_packages_are_merged(index: Index, make: Make, site: Path) -> None:
    """Two distributions may share a folder without an `__init__.py`, installed one after the other."""
    index.add("space-one", files={"space/one.py": "", "LICENSE": "one", "tests/test_it.py": "one"})
    index.add("space-two", files={"space/two.py": "", "LICENSE": "two", "tests/test_it.py": "two"})
    installer = make()
    await installer.install(["space-one"])
    await installer.install(["space-two"])
    assert sorted(path.name for path in (site / "space").iterdir()) == ["one.py", "two.py"]
    assert (site / "LICENSE").read_text() == "one"
    assert (site / "tests/test_it.py").read_text() == "one"


async def test_a_package_does_not_overwrite_another(index: Index, make: Make) -> None:
    """Two distributions with the same file and other content don't mix."""
    index.add("one", files={"same/__init__.py": "1"})
    index.add("two", files={"same/__init__.py": "2", "same/more.py": ""})
    installer = make()
    await installer.install(["one"])
    await refused(installer, "two", match=r"__init__\.py in same is there already")


async def test_a_move_that_fails_is_taken_back(index: Index, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the second rename fails, the first one is undone."""
    index.add("app", files={"app/__init__.py": "", "second.py": ""})
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "second.py":
            raise OSError("no space left")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    await refused(make(), "app", match="no space left")


# -- a hostile wheel


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"evil.pth": "import os\n"}, r"evil 1\.0 contains evil\.pth"),
        ({"zmq/__init__.py": ""}, r"evil 1\.0 would bring zmq,"),
        ({"zmq.py": ""}, r"would bring zmq\.py"),
        ({"ipykernel/kernelbase.py": ""}, "would bring ipykernel"),
        ({"tornado.cpython-311-x86_64-linux-gnu.so": ""}, "would bring tornado"),
        ({"sitecustomize.py": ""}, "would bring sitecustomize"),
        ({"evil-1.0.data/purelib/zmq/x.py": ""}, "would bring zmq"),
        ({"evil-1.0.data/data/evil.pth": ""}, "contains evil.pth"),
    ],
)
async def test_a_wheel_that_reaches_into_the_kernel_is_refused(
    files: dict[str, str], reason: str, index: Index, make: Make
) -> None:
    """`.pth` files, the kernel's modules and start-up modules, by whatever way a wheel carries them."""
    index.add("evil", files={"evil/__init__.py": "", **files})
    assert isinstance(await refused(make(), "evil", match=reason), InstallRefused)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a1_coverage.pth/x": ""}, "contains a1_coverage.pth"),
        ({"evil-nspkg.pth/x": ""}, "contains evil-nspkg.pth"),
        ({"evil-1.0.data/purelib/a-1.dist-info/RECORD/x": "", "evil.pth": ""}, "contains evil.pth"),
        ({"d/" * 1500 + "x.py": ""}, "has more than 100 folders in each other"),
    ],
)
async def test_a_wheel_with_something_odd_in_the_place_of_a_file_is_refused(
    files: dict[str, str], reason: str, index: Index, make: Make, site: Path
) -> None:
    """In a sentence, as any other one, and all of it is removed, however deep."""
    index.add("evil", files={"evil/__init__.py": "", **files})
    assert isinstance(await refused(make(), "evil", match=reason), InstallRefused)
    assert sorted(each.name for each in site.parent.iterdir()) == ["site", "site-asked.json"]
    assert list(site.iterdir()) == []


async def test_a_huge_list_of_files_is_not_read_whole(index: Index, make: Make) -> None:
    """Wheels may bring other distributions' lists; they are searched for who owns what is refused."""
    listed = {f"evil-1.0.data/purelib/{name}-1.dist-info/RECORD": "x,,\n" * 16_000_000 for name in "ab"}
    index.add("evil", files={"evil/__init__.py": "", "evil.pth": "", **listed}, packed=True)
    tracemalloc.start()
    try:
        await refused(make(), "evil", match=r"contains evil\.pth")
        assert tracemalloc.get_traced_memory()[1] < 60 * 1024 * 1024
    finally:
        tracemalloc.stop()


async def test_a_dependency_that_reaches_into_the_kernel_is_refused(index: Index, make: Make) -> None:
    """And the package that asked for it isn't installed either."""
    index.add("app", requires=("evil",))
    index.add("evil", files={"zmq/__init__.py": ""})
    await refused(make(), "app", match="evil 1.0 would bring zmq")


async def test_a_kernel_module_may_come_from_its_own_distribution(index: Index, make: Make, site: Path) -> None:
    """Where the sandbox has no `six`, the distribution of that name may bring it."""
    index.add("six", files={"six.py": ""})
    await make().install(["six"])
    assert (site / "six.py").exists()


async def test_a_wheel_that_climbs_out_writes_nothing_outside(
    index: Index, make: Make, site: Path, tmp_path: Path
) -> None:
    """A path with `..` in a wheel is dropped by uv; were it not, this test would find the file."""
    index.add("evil", files={"evil/__init__.py": "", "../escaped.py": "", "../../escaped.py": "", "/escaped.py": ""})
    with contextlib.suppress(InstallError):
        await make().install(["evil"])
    assert list(tmp_path.rglob("escaped.py")) in ([], [site / "escaped.py"])
    assert not Path("/escaped.py").exists()


async def test_scripts_of_a_wheel_land_nowhere_else(index: Index, make: Make, tmp_path: Path) -> None:
    """By the name of a script, uv before 0.11.15 wrote a program anywhere, for example among those of the person."""
    names = ["../../escaped", "../" * 5 + "escaped", f"{tmp_path}/escaped", "a/../../../escaped"]
    points = "".join(f"[{kind}]\n" + "".join(f"{name} = evil:main\n" for name in names) for kind in SCRIPTS)
    index.add("evil", files={"evil/__init__.py": "", "evil-1.0.dist-info/entry_points.txt": points})
    with contextlib.suppress(InstallError):
        await make().install(["evil"])
    assert list(tmp_path.rglob("escaped*")) == []
