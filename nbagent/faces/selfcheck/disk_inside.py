"""Attacks on the host's disk: filling it."""

from __future__ import annotations

import errno
import os
import resource
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup

GROUP = ProbeGroup("the host's disk")
_attack = GROUP.attack


@_attack(
    "19",
    "Write more files than a scratch folder holds (/tmp, /workspace, the home folder, /dev/shm)",
    expected="no space left, and none of it on the host's disk",
    control="tmp",
)
def fill_scratch_folders(host: Any) -> object:
    found, full = [], []
    size = host["tmp_mb"] + 8
    for folder in host["scratch"]:
        name = folder + "/nbagent-probe"
        try:
            with open(name, "wb", buffering=0) as file:
                for written in range(size):
                    if file.write(bytes(1 << 20)) < 1 << 20:
                        full.append(f"{folder} after {written} MB")
                        break
                else:
                    found.append(f"{folder} took {size} MB")
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            full.append(f"{folder} after {written} MB")
        finally:
            if os.path.exists(name):
                os.unlink(name)
    if not found:
        raise OSError(f"full: {', '.join(full)}")
    return found


@_attack(
    "19",
    "Make a file of a terabyte that has no content",
    expected="it takes no room, and lies on no disk of the host's",
    control="tmp",
)
def make_a_sparse_file(host: Any) -> object:
    # Every writable folder must be a tmpfs of the sandbox's with a size.
    found = []
    for folder in host["scratch"]:
        name = folder + "/nbagent-probe-sparse"
        try:
            with open(name, "wb") as file:
                file.truncate(1 << 40)
            there = os.statvfs(name)
            if there.f_blocks * there.f_frsize > (host["tmp_mb"] + 1) << 20:
                found.append(f"{folder} is on a file system of {there.f_blocks * there.f_frsize >> 20:,} MB")
        except OSError:
            continue
        finally:
            if os.path.exists(name):
                os.unlink(name)
    return found


@_attack("+", "Write a core file of any size when a program crashes", expected="the limit on core files is 0")
def leave_core_files(host: Any) -> object:
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    return f"up to {'any size' if most < 0 else most}" if most else None


@_attack("+", "Have the host's disk written without end (fsync)", expected="Linux is never asked")
def flush_the_disk(host: Any) -> object:
    import ctypes

    # Of a file that isn't there, Linux would say so.
    libc = ctypes.CDLL(None, use_errno=True)
    none = ctypes.c_int(-1)
    return [name for name in ("fsync", "fdatasync", "syncfs") if getattr(libc, name)(none)]
