"""The arguments of bwrap: namespaces, and mounts in their order."""

from __future__ import annotations

import functools
import os
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from nbagent.core.errors import DataError
from nbagent.core.policy import MIB, Network, Trust
from nbagent.sandbox import environment, paths
from nbagent.sandbox.data.mounts import Mount
from nbagent.sandbox.machine.userland import SHELLS, environment_variables
from nbagent.sandbox.paths import DATA, HOME, PYTHON, RUN, WORKSPACE

HOST_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl", "ca-certificates", "fonts", "localtime", "alternatives")
"""The entries of /etc that the sandbox sees: the loader's cache, certificates, fonts, time zone, links of Debian's."""
HIDDEN = tuple("acpi asound interrupts kcore keys latency_stats pressure sched_debug scsi timer_list".split())
"""Files of /proc that tell of the machine, hidden as Docker does: `keys`, for one, lists the keys of the person's user.
`pressure` is hidden too: everybody may write to it, to have Linux watch the machine."""
LIBRARIES = ("lib", "lib64")
SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64")
NO_LIBRARY = ("site-packages", "dist-packages", "test")
"""Folders in the standard library that don't belong to it, or that are of no use for data analysis."""
CONDA = ("ssl", "share/zoneinfo")
"""What conda's Python has in its prefix, and others take from the system; beside shared libraries."""
MAX_ARGUMENTS = 8900
"""bwrap takes 9000 at most."""


def arguments(
    trust: Trust,
    made: environment.Environment,
    *,
    site: Path,
    shared: Path,
    data: Iterable[Mount],
    files: Mapping[str, int],
    variables: Iterable[tuple[str, str | None]] = (),
) -> list[str]:
    """All arguments for a sandbox; `files` are descriptors of files of /etc that are made for it, by name."""
    full = trust.network is Network.FULL
    found = [*namespaces(network=full), "--new-session", "--as-pid-1", "--clearenv"]
    all_of = environment_variables(shared_library=made.shared_library, trust=trust, variables=variables)
    for name, value in all_of.items():
        found += ["--setenv", name, value]
    # Folders that bwrap makes on the way to a mount are closed to all but their owner, who isn't the sandbox's user.
    for folder in ("/etc", "/opt", "/run", "/home"):
        found += ["--perms", "0755", "--dir", folder]
    # In a user namespace, code could change the settings of the sandbox's message queues.
    found += [*_system(network=full), "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    if not trust.allow_shell:
        # The whole machine has one supply of terminals, and without a shell nothing needs one.
        found += ["--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"]
    for path in (Path("/proc", name) for name in HIDDEN):
        if path.is_dir():
            found += ["--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.exists():
            found += ["--ro-bind", "/dev/null", str(path)]
    for name, descriptor in files.items():
        found += ["--perms", "0644", "--ro-bind-data", str(descriptor), f"/etc/{name}"]
    if trust.hides_shells:
        found += _no_shells()
    size = str(trust.limits.tmp_mb * MIB)
    for folder in ("/dev/shm", "/tmp", WORKSPACE, HOME):  # noqa: S108 - inside
        found += ["--perms", "1777", "--size", size, "--tmpfs", folder]
    found += [*_python(Path(made.base), made.python), *_libpython(), "--remount-ro", "/usr/local"]
    for source, target in ((made.folder, paths.KERNEL), (str(site), paths.SITE), (str(shared), RUN)):
        found += ["--ro-bind", source, target]
    found += _data(data)
    if trust.read_only_root:
        found += ["--remount-ro", "/"]
    if len(found) > MAX_ARGUMENTS:
        raise DataError("The data has more files than can be mounted one by one.", mend="Give a part of it.")
    return [*found, "--chdir", WORKSPACE]


def namespaces(*, network: bool) -> list[str]:
    """Every namespace, except for the network's if the network is granted; and no capabilities."""
    found = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
    if not network:
        found.append("--unshare-net")
    found += ["--cap-drop", "ALL"]
    if os.getuid() == 0:
        # Only to leave root for good, which `inside.py` does before anything else.
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            found += ["--cap-add", capability]
    else:
        found += ["--unshare-user"]
    return found


def _system(*, network: bool) -> list[str]:
    """The host's programs and libraries, read-only, and the entries of its /etc that these need."""
    found = ["--ro-bind", "/usr", "/usr"]
    for folder in map(Path, HOST_FOLDERS):
        if folder.is_symlink():
            found += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            found += ["--ro-bind", str(folder), str(folder)]
    # What an administrator installed on this machine alone is not for the sandbox.
    found += ["--tmpfs", "/usr/local"]
    for folder in sorted(Path("/usr/lib").glob("python3*/dist-packages")):
        found += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    for name in ETC + (("resolv.conf", "hosts", "nsswitch.conf") if network else ()):
        found += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return found


def _python(base: Path, python: str) -> list[str]:
    """The host's Python at /opt/python: the interpreter, its standard library and the libraries that these need.

    The host's prefix has more in it, which a sandbox must not see: the person's programs, packages and configuration.
    """
    name = f"python{'.'.join(python.split('.')[:2])}"
    of_conda = (base / "conda-meta").is_dir()
    found = []
    for folder in (PYTHON, f"{PYTHON}/bin", *(f"{PYTHON}/{each}" for each in LIBRARIES)):
        if not (base / Path(folder).relative_to(PYTHON)).is_symlink():
            found += ["--perms", "0755", "--dir", folder]
    found += _bind(base, f"bin/{name}")
    for library in LIBRARIES:
        if (base / library).is_symlink():
            found += ["--symlink", str((base / library).readlink()), f"{PYTHON}/{library}"]
            continue
        found += _standard_library(base, f"{library}/{name}")
        for path in sorted((base / library).glob("*.so*" if of_conda else "libpython*.so*")):
            found += _bind(base, f"{library}/{path.name}")
    for each in CONDA if of_conda else ():
        found += _bind(base, each)
    return found


def _standard_library(base: Path, folder: str) -> list[str]:
    found = _bind(base, folder)
    for name in NO_LIBRARY:
        if found and (base / folder / name).is_dir():
            at = f"{PYTHON}/{folder}/{name}"
            found += ["--perms", "0755", "--tmpfs", at, "--remount-ro", at]
    return found


@functools.cache
def _libpython() -> tuple[str, ...]:
    """The host's libpython, if its Python has one, wherever the loader looks for it without `LD_LIBRARY_PATH`.

    A program that code starts without variables would get another Python's, of another release, or none. So it is where
    the host's loader finds it, and in place of each of the machine's own.
    """
    name = str(sysconfig.get_config_var("INSTSONAME"))
    own = Path(str(sysconfig.get_config_var("LIBDIR")), name)
    if ".so" not in name or not own.is_file():
        return ()
    others = [each for folder in SYSTEM_LIBRARIES for at in (name, f"*/{name}") for each in Path(folder).glob(at)]
    found = [word for each in reversed(own.parents) for word in ("--perms", "0755", "--dir", str(each))]
    for place in sorted({own, *(each.resolve() for each in others)}):
        found += ["--ro-bind", str(own), str(place)]
    return tuple(found)


def _bind(base: Path, path: str) -> list[str]:
    return ["--ro-bind", str(base / path), f"{PYTHON}/{path}"] if (base / path).exists() else []


def _no_shells() -> list[str]:
    """Mounts of a file that can't be executed over each shell that the host has."""
    folders = ("/usr/bin", "/usr/sbin", *(each for each in HOST_FOLDERS[:2] if not Path(each).is_symlink()))
    there = [Path(folder, name) for folder in folders for name in SHELLS]
    # A link leads to a shell of another name, over which the same is mounted.
    shells = sorted({str(each.resolve()) for each in there if each.exists()})
    return [word for each in shells for word in ("--ro-bind", "/dev/null", each)]


def _data(data: Iterable[Mount]) -> list[str]:
    found = ["--perms", "0755", "--dir", DATA]
    for mount in data:
        found += ["--ro-bind", str(mount.source), mount.target]
    return found
