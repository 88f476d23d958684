"""Sets what holds in a sandbox's network alone, from outside: only a process that enters the network may do that.

Linux keeps for a TCP socket, and charges nobody for it, as much as its receive buffer may have: up to 32 MB, unless the
network says less. This file is also that process, since it gives up its own place, so it imports the standard library
only when it is run. The Docker engine has the daemon do the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

SECONDS = 5.0
"""Seconds to wait for bwrap's child, and for the settings."""
PAUSE = 0.002
OWNER_OF = 0xB701
"""The ioctl NS_GET_USERNS: the user namespace in which a namespace was made, and whose root may change it."""
NEW_NETWORK, NEW_USERS = 0x40000000, 0x10000000


def bound(folder: Path, monitor: subprocess.Popen[bytes], settings: Mapping[str, str]) -> bool:
    """Set something, by the names that sysctl has, in the network of a sandbox that is about to start.

    Returns:
        Whether that worked. It doesn't where /proc/sys is read-only, as in most containers.
    """
    # Not above: this file is run without the package.
    from nbagent.sandbox.engines.bwrap_process import read_status

    end = time.monotonic() + SECONDS
    while not (child := int(read_status(folder).get("child-pid", 0))):
        if monitor.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(PAUSE)
    words = [f"{name.replace('.', '/')}={value}" for name, value in settings.items()]
    try:
        command = [sys.executable, "-I", "-S", __file__, str(child), *words]
        return not subprocess.run(command, capture_output=True, timeout=SECONDS, check=False).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def enter(process: int) -> None:
    """Enter the network namespace of a process, with the rights that its owner has there.

    Raises:
        OSError: Linux refuses, or the network is this process's own: the number may be another process's by now.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    network = os.open(f"/proc/{process}/ns/net", os.O_RDONLY)
    if os.fstat(network).st_ino == Path("/proc/self/ns/net").stat().st_ino:
        raise OSError("it has no network of its own")
    users = fcntl.ioctl(network, OWNER_OF)
    own = os.fstat(users).st_ino == Path("/proc/self/ns/user").stat().st_ino
    for namespace, kind in ((network, NEW_NETWORK),) if own else ((users, NEW_USERS), (network, NEW_NETWORK)):
        if libc.setns(namespace, kind):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        enter(int(sys.argv[1]))
        for word in sys.argv[2:]:
            name, _, value = word.partition("=")
            Path("/proc/sys", name).write_text(value)
        sys.exit(0)
    sys.exit(1)
