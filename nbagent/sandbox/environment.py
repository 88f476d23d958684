"""The kernel environment: the packages of `kernels/requirements.txt` as a virtual environment, made once and cached.

A sandbox sees it at /opt/kernel. Its byte code is compiled ahead: nothing inside can write it, and compiling at each
start would cost more than the start. bubblewrap mounts the cached folder; the Docker image is made from the same
requirements (`image.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from nbagent.core import fileio, folders
from nbagent.core.errors import EnvironmentMissing
from nbagent.packages import pinned
from nbagent.packages.requirements import Target
from nbagent.sandbox.paths import FONTS, KERNEL, PYTHON, SITE


def kernels() -> Path:
    """The folder with the Dockerfile and the pinned requirements, in the wheel or in a checkout."""
    packaged = Path(__file__).resolve().parents[1] / "_kernels"
    return packaged if packaged.is_dir() else packaged.parent.parent / "kernels"


def requirements() -> Path:
    """The pinned and hashed requirements of a kernel."""
    return kernels() / "requirements.txt"


@dataclass(frozen=True)
class Environment:
    """A kernel environment that was built.

    Attributes:
        folder: On the host; the sandbox sees it at /opt/kernel.
        base: The base Python's prefix on the host; the sandbox sees it at /opt/python.
        python: Its version, such as `3.11.7`.
        platform: What wheels must fit, such as `x86_64-manylinux_2_36`.
        digest: `sha256:…` over the requirements, the Python and the platform.
        shared_library: Whether the base Python needs its own `lib` folder on the loader's path.
    """

    folder: str
    base: str
    python: str
    platform: str
    digest: str
    shared_library: bool

    @property
    def target(self) -> Target:
        """What further packages must fit."""
        return Target(python=self.python, platform=self.platform, pins=requirements())


def host_platform() -> str:
    """This machine and its glibc, as the names of wheels have them."""
    library, version = platform.libc_ver()
    if library != "glibc":
        raise EnvironmentMissing("The kernel environment needs a Linux with glibc.", mend="Use the docker engine.")
    major, minor = version.split(".")[:2]
    return f"{platform.machine()}-manylinux_{major}_{minor}"


def describe() -> Environment:
    """The environment of this Python and these requirements, whether it has been made or not."""
    wanted = requirements()
    found = wanted.stat()
    state = (found.st_mtime_ns, found.st_size)
    return _describe(folders.environments(), wanted, state, platform.python_version(), LAYOUT)


@functools.lru_cache(maxsize=8)
def _describe(root: Path, wanted: Path, state: tuple[int, int], python: str, layout: int) -> Environment:  # noqa: ARG001
    # By `state`, a file that has changed is read again.
    base = Path(sys.base_prefix).resolve()
    where = host_platform()
    text = wanted.read_bytes() + f"{base} {python} {where} {layout}".encode()
    digest = hashlib.sha256(text).hexdigest()
    return Environment(
        folder=str(root / digest[:16]),
        base=str(base),
        python=python,
        platform=where,
        digest=f"sha256:{digest}",
        shared_library=bool(sysconfig.get_config_var("Py_ENABLE_SHARED")),
    )


COMPILE = ("-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash")
"""Compiles byte code that Python never compares with its source: nothing can change either."""
LAYOUT = 3
"""To be counted up when an environment of the same requirements is made in another way."""


def find() -> Environment | None:
    """The environment, if it has been made."""
    wanted = describe()
    return wanted if (Path(wanted.folder) / "nbagent.json").is_file() else None


async def build() -> Environment:
    """Make the environment if it isn't there: 211 MB of wheels the first time. `folders.progress` tells how far it is.

    Raises:
        EnvironmentMissing: It can't be made; the message has uv's reason.
    """
    wanted, root = describe(), folders.environments()
    fileio.make_folder(root, mode=0o755)
    async with fileio.locked(root / "lock"):
        if (made := find()) is not None:
            return made
        staging = Path(tempfile.mkdtemp(prefix="making-", dir=root))
        try:
            _say("making the kernel's environment, once")
            staging.chmod(0o755)
            await _make(staging, wanted)
            (staging / "nbagent.json").write_text(json.dumps(asdict(wanted), indent=1))
            shutil.rmtree(wanted.folder, ignore_errors=True)
            staging.rename(wanted.folder)
        except (OSError, subprocess.SubprocessError) as error:
            raise EnvironmentMissing(f"The kernel environment could not be made: {error}.") from error
        finally:
            (root / folders.PROGRESS).unlink(missing_ok=True)
            shutil.rmtree(staging, ignore_errors=True)
    return wanted


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        fileio.write(folders.environments() / folders.PROGRESS, text.encode())


async def _make(staging: Path, wanted: Environment) -> None:
    version = ".".join(wanted.python.split(".")[:2])
    site = staging / "lib" / f"python{version}" / "site-packages"
    site.mkdir(parents=True)
    await asyncio.to_thread(
        pinned.fill, site, pins=requirements(), python=wanted.python, platform=wanted.platform, say=_say
    )
    _say("compiling the kernel's packages, once")
    shutil.rmtree(site / "bin", ignore_errors=True)
    make_venv(staging, version=version)
    executable = Path(wanted.base) / "bin" / f"python{version}"
    fonts = staging / FONTS.removeprefix(KERNEL + "/")
    fonts.mkdir(parents=True)
    outside = {"PYTHONPATH": str(site), "MPLCONFIGDIR": str(fonts), "PATH": os.environ.get("PATH", ""), "HOME": "/"}
    loader = os.environ.get("LD_LIBRARY_PATH")
    environment = outside | ({"LD_LIBRARY_PATH": loader} if loader else {})
    for arguments in (
        # The paths that tracebacks show are those inside.
        [*COMPILE, "-s", str(staging), "-p", KERNEL, str(site)],
        ["-B", "-c", "import matplotlib.font_manager"],
    ):
        await asyncio.to_thread(_run, [str(executable), "-P", *arguments], environment, staging)
    _make_readable(staging)


def make_venv(folder: Path, *, version: str) -> None:
    """Make a folder a virtual environment of the Python at /opt/python, as seen from inside.

    Programs find the session's packages as the kernel does: last, so that these can't stand in for its own.
    """
    scripts, site = folder / "bin", folder / "lib" / f"python{version}" / "site-packages"
    scripts.mkdir(parents=True, exist_ok=True)
    site.mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3", f"python{version}"):
        (scripts / name).symlink_to(f"{PYTHON}/bin/python{version}")
    config = f"home = {PYTHON}/bin\ninclude-system-site-packages = false\nversion = {version}\n"
    (folder / "pyvenv.cfg").write_text(config)
    (site / "nbagent.pth").write_text(f"{SITE}\n")


def _run(command: list[str], environment: dict[str, str], folder: Path) -> None:
    """Run one in a folder of our own: Python and Matplotlib take files of the current one, a cloned one perhaps."""
    # Single files of third parties that don't compile (templates, tests) are no reason to stop.
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode and "compileall" not in command:
        raise EnvironmentMissing(f"The kernel environment could not be made: {done.stderr.strip()[-500:]}")


def _make_readable(folder: Path) -> None:
    """Let the sandbox's own user read all of it, whatever the umask was."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
