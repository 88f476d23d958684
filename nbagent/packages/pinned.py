"""Fills a folder with all packages of a requirements file, for a kernel's environment or image."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from nbagent.core.errors import EnvironmentMissing
from nbagent.packages import uv
from nbagent.packages.requirements import Target
from nbagent.packages.wheels import make_readable


def fill(folder: Path, *, pins: Path, python: str, platform: str) -> None:
    """Install a requirements file with hashes into a folder, which appears atomically.

    Args:
        folder: Must not exist, or be empty. If another process fills it meanwhile, its content stays.
        pins: A requirements file that names every package, dependencies included, with hashes.
        python: Version of the Python that will use it.
        platform: Its machine and glibc, for example `x86_64-manylinux_2_41`.

    Raises:
        EnvironmentMissing: The install failed; the message ends with uv's reason.
    """
    if folder.exists() and any(folder.iterdir()):
        raise EnvironmentMissing(f"{folder} is not empty.", mend="Remove it, or name another folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    target = Target(python=python, platform=platform, pins=pins)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        work = Path(made)
        (work / "uv.toml").touch()
        arguments = uv.install_arguments(work / "site", str(pins.absolute()), uv.target_arguments(target))
        try:
            done = subprocess.run(
                [uv.binary(), *arguments], cwd=work, env=uv.environment(), stdin=subprocess.DEVNULL,
                capture_output=True, check=False, timeout=uv.FETCH_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise EnvironmentMissing(f"Installing {pins} took more than {uv.FETCH_SECONDS:g} s.") from None
        if done.returncode:
            reason = uv.shorten(done.stderr.decode(errors="replace"))
            raise EnvironmentMissing(f"The packages of {pins} can't be installed: {reason}")
        (work / "site" / ".lock").unlink(missing_ok=True)
        make_readable(work / "site")
        try:
            (work / "site").replace(folder)
        except OSError:
            if not folder.is_dir() or not any(folder.iterdir()):
                raise
