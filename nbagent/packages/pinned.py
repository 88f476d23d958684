"""Fills a folder with all packages of a requirements file, for a kernel's environment or image."""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from nbagent.core import fileio
from nbagent.core.errors import EnvironmentMissing
from nbagent.packages import uv
from nbagent.packages.requirements import Target
from nbagent.packages.unpacked import make_readable

_TOLD = re.compile(r"^ *(Downloading|Downloaded) (\S+)(?: \(([\d.]+)MiB\))?$")
"""What uv tells of files from 1 MiB on."""
NOT_THERE = (
    "Name an index that has exactly these versions, or a mirror of it, and its user and password in its address, in "
    "~/.netrc or by UV_KEYRING_PROVIDER."
)


def fill(
    folder: Path, *, pins: Path, python: str, platform: str, say: Callable[[str], object] = lambda _: None
) -> None:
    """Install a requirements file with hashes into a folder, which appears atomically and has no packages' test suites.

    On the file system of uv's cache, the files are hard links to those there, and so take no room of their own.

    Args:
        folder: Must not exist, or be empty. If another process fills it meanwhile, its content stays.
        pins: A requirements file that names every package, dependencies included, with hashes.
        python: Version of the Python that will use it.
        platform: Its machine and glibc, for example `x86_64-manylinux_2_41`.
        say: Gets what is downloaded and how far that is, again and again.

    Raises:
        EnvironmentMissing: The install failed; the message ends with uv's reason.
    """
    if folder.exists() and any(folder.iterdir()):
        raise EnvironmentMissing(f"{folder} is not empty.", mend="Remove it, or name another folder.")
    fileio.make_folder(folder.parent, mode=0o755)
    target = Target(python=python, platform=platform, pins=pins)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        work = Path(made)
        (work / "uv.toml").touch()
        _unpack(work, target, say=say)
        (work / "site" / ".lock").unlink(missing_ok=True)
        _remove_test_suites(work / "site")
        make_readable(work / "site")
        try:
            (work / "site").replace(folder)
        except OSError:
            if not folder.is_dir() or not any(folder.iterdir()):
                raise


def _unpack(work: Path, target: Target, *, say: Callable[[str], object]) -> None:
    """Unpack all of the target's pins into `work/site`."""
    # By hard links: nobody writes these files, and that those in the cache become readable does no harm.
    how = [each for each in uv.target_arguments(target) if each != "--quiet"]
    arguments = uv.install_arguments(work / "site", str(target.pins.absolute()), how, link="hardlink")
    # From whichever index has a version: its hashes say that it is the one. A private index may have another one only.
    # With this strategy uv doesn't say which index refused to answer, so a single index is asked without it.
    strategy = {"UV_INDEX_STRATEGY": "unsafe-best-match"} if uv.has_further_indexes() else {}
    environment = strategy | uv.environment()
    process = subprocess.Popen(
        [uv.binary(), *arguments], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip
    clock = threading.Timer(uv.FETCH_SECONDS, process.kill)
    clock.start()
    said: list[str] = []
    sizes: dict[str, float] = {}
    waited_for: dict[str, None] = {}
    with process:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        for line in process.stderr:
            said.append(line)
            if (told := _TOLD.match(line)) is None:
                continue
            if told[1] == "Downloading":
                sizes[told[2]], waited_for[told[2]] = float(told[3] or 0), None
            else:
                waited_for.pop(told[2], None)
            done, total = sum(sizes.values()) - sum(sizes[each] for each in waited_for), sum(sizes.values())
            names = ", ".join([*waited_for][:3]) + (f" and {len(waited_for) - 3} more" if len(waited_for) > 3 else "")
            say(f"downloading the kernel's packages, once … {done:.0f} of {total:.0f} MB: {names or 'unpacking'}")
    in_time = clock.is_alive()
    clock.cancel()
    if not in_time:
        raise EnvironmentMissing(f"Installing {target.pins} took more than {uv.FETCH_SECONDS:g} s.")
    if process.returncode:
        error = "".join(said)
        error = error[max(0, error.find("error: ")) :]
        raise EnvironmentMissing(
            f"The packages of {target.pins} can't be installed: {uv.shorten(error)}",
            mend=uv.way_out(error) or (NOT_THERE if "No solution found" in error else ""),
        )


def _remove_test_suites(site: Path) -> None:
    """Remove the folders in which packages have tests of their own."""
    for folder in [*site.rglob("tests"), *site.rglob("test")]:
        if any(folder.glob("test_*.py")) or any(folder.glob("*_test.py")):
            fileio.remove(folder)
