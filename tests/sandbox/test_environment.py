"""The kernel environment: found by the digest of its pins, made once, and nothing left of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nbagent.core import folders
from nbagent.core.errors import EnvironmentMissing
from nbagent.sandbox import environment
from nbagent.sandbox.environment import Environment


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and requirements of the test's own."""
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "requirements.txt").write_text("six==1.17.0\n")
    monkeypatch.setattr(environment, "kernels", lambda: kernels)
    monkeypatch.setattr(folders, "environments", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that were filled; filling takes a moment and no network."""
    filled: list[Path] = []

    async def make(staging: Path, wanted: Environment) -> None:
        assert wanted.folder
        filled.append(staging)
        await asyncio.sleep(0.2)
        (staging / "bin").mkdir()

    monkeypatch.setattr(environment, "_make", make)
    return filled


def test_it_is_there() -> None:
    """The environment of these requirements has been made, and everybody may read all of it."""
    found = environment.find()
    assert found is not None, "run: nbagent env build"
    folder = Path(found.folder)
    assert found.python.startswith("3.")
    assert (folder / "bin" / "python").is_symlink()
    for path in folder.rglob("*.so"):
        assert path.stat().st_mode & 0o004
    for path in folder.rglob("*"):
        assert path.is_symlink() or not path.is_dir() or path.stat().st_mode & 0o005 == 0o005


async def test_it_is_not_made_again() -> None:
    """Where it is there, building returns it at once."""
    before = Path(environment.describe().folder).stat().st_mtime_ns
    assert await environment.build() == environment.find()
    assert Path(environment.describe().folder).stat().st_mtime_ns == before


@pytest.mark.usefixtures("elsewhere")
def test_other_requirements_are_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest follows the requirements, the Python and the layout."""
    first = environment.describe()
    environment.requirements().write_text("six==1.16.0\n")
    second = environment.describe()
    monkeypatch.setattr("platform.python_version", lambda: "3.99.0")
    third = environment.describe()
    monkeypatch.setattr(environment, "LAYOUT", 99)
    assert len({each.digest for each in (first, second, third, environment.describe())}) == 4
    assert environment.find() is None


async def test_many_that_want_it_make_it_once(elsewhere: Path, made: list[Path]) -> None:
    """Ten kernels that start at once on the first run wait for one build."""
    found = await asyncio.wait_for(asyncio.gather(*(environment.build() for _ in range(10))), 20)
    assert len(made) == 1
    assert len(set(found)) == 1
    assert environment.find() == found[0]
    assert [each.name for each in elsewhere.iterdir() if each.is_dir()] == [Path(found[0].folder).name]


async def test_others_see_how_far_it_is(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is downloaded is told while it is, also to other processes; what a killed one left to be told is nothing."""
    seen = []

    def fill(*_: object, say: Callable[[str], object], **__: object) -> None:
        say("downloading … 1 of 2 MB: six")
        seen.append(folders.progress())
        raise EnvironmentMissing("No.")

    monkeypatch.setattr(environment.pinned, "fill", fill)
    with pytest.raises(EnvironmentMissing):
        await environment.build()
    assert seen == ["downloading … 1 of 2 MB: six"]
    (elsewhere / "progress").write_text("of a process that is gone")
    assert folders.progress() == ""


async def test_giving_up_leaves_nothing(elsewhere: Path, made: list[Path]) -> None:
    """A build that is cancelled leaves neither a folder nor the lock."""
    building = asyncio.create_task(environment.build())
    await asyncio.sleep(0.1)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert len(made) == 1
    assert not [each for each in elsewhere.iterdir() if each.is_dir()]
    await asyncio.wait_for(environment.build(), 60)


async def test_a_failure_is_told_and_leaves_nothing(elsewhere: Path) -> None:
    """Requirements that can't be had are an error with uv's reason; what was begun is gone."""
    environment.requirements().write_text("nbagent-no-such-distribution==1.0 --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(EnvironmentMissing):
        await environment.build()
    assert environment.find() is None
    assert not [each for each in elsewhere.iterdir() if each.is_dir()]


async def test_half_an_environment_is_none(elsewhere: Path, made: list[Path]) -> None:
    """A folder without the note that ends its making is made again."""
    Path(environment.describe().folder).mkdir(parents=True)
    assert environment.find() is None
    await environment.build()
    assert environment.find() is not None
    assert len(made) == 1
    assert elsewhere.is_dir()


async def test_no_module_of_the_current_folder_is_run(
    elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes it in a cloned repository runs nothing of that: Python itself would look there first."""
    ran, cloned = tmp_path / "ran", tmp_path / "cloned"
    cloned.mkdir()
    for name in ("compileall", "matplotlib", "os", "re", "sitecustomize"):
        (cloned / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write(__name__)")

    def fill(site: Path, **_: object) -> None:
        (site / "matplotlib").mkdir()
        (site / "matplotlib" / "__init__.py").touch()
        (site / "matplotlib" / "font_manager.py").touch()

    monkeypatch.setattr(environment.pinned, "fill", fill)
    monkeypatch.chdir(cloned)
    made = await environment.build()
    assert not ran.exists()
    assert Path(made.folder).parent == elsewhere
    assert len([*Path(made.folder).glob("lib/*/site-packages/matplotlib/__pycache__/*.pyc")]) == 2


def test_another_c_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels for glibc don't fit another C library; the mend is the other engine."""
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    with pytest.raises(EnvironmentMissing, match="glibc") as caught:
        environment.host_platform()
    assert "docker" in caught.value.mend


def test_links_lead_to_where_python_is_inside(tmp_path: Path) -> None:
    """The interpreter of the environment is found at the sandbox's place, not at the host's."""
    environment.make_venv(tmp_path, version="3.12")
    assert (tmp_path / "bin" / "python3").readlink() == Path("/opt/python/bin/python3.12")
    assert "home = /opt/python/bin" in (tmp_path / "pyvenv.cfg").read_text()
    assert (tmp_path / "lib/python3.12/site-packages/nbagent.pth").read_text() == "/opt/site\n"
