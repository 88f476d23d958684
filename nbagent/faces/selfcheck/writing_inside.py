"""Attacks that write to the host: its files, the sandbox's root, and the person's data."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, ProbeGroup

GROUP = ProbeGroup("writing to the host")
_attack = GROUP.attack
_UNREADABLE = "no such file, or permission denied"


@_attack("2", "Write into a folder of the host that anybody may write to", expected=_UNREADABLE, control="files")
def write_to_a_folder_of_the_host(host: Any) -> object:
    with open(host["tree"] + "/planted", "w") as file:
        file.write("x")
    return True


@_attack(
    "10",
    "Plant start-up files where the host runs them (IPython, .pth, git hooks, kernel.json, nbagent's settings)",
    expected="no such folder",
    control="files",
)
def plant_start_up_files(host: Any) -> object:
    planted = []
    for name in host["start_up"]:
        try:
            with open(os.path.join(host["tree"], name), "w") as file:
                file.write("raise SystemExit")
        except OSError:
            continue
        planted.append(name)
    return planted


@_attack(
    "2",
    "Write to every mount",
    expected="only to tmpfs folders of its own, and to harmless devices",
    levels=BELOW_TRUSTED,
    control="files",
)
def write_to_mounts(host: Any) -> object:
    # Files without a name, so that nothing is left if the attack succeeds.
    refused = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENXIO, errno.EIO, errno.ENODEV)
    devices = {f"/dev/{each}" for each in "null zero full random urandom tty ptmx pts console".split()}
    found = []
    for line in open("/proc/self/mountinfo"):
        at = line.split()[4].encode().decode("unicode_escape")
        kind = line.split(" - ")[1].split()[0]
        if at in devices or (kind in ("tmpfs", "mqueue") and host["isolated"]):
            continue
        wanted = os.O_TMPFILE | os.O_WRONLY if os.path.isdir(at) else os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK
        try:
            os.close(os.open(at, wanted))
        except OSError as error:
            if error.errno in refused:
                continue
        found.append(at)
    return found


@_attack(
    "10",
    "Plant a file in the sandbox's root (/, /usr, /etc, /opt, /run/nbagent)",
    expected="read-only file system",
    levels=BELOW_TRUSTED,
    control="files",
)
def write_to_the_root(host: Any) -> object:
    refused = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT)
    found = []
    places = "/ /usr /usr/lib /etc /opt /opt/kernel /opt/python /opt/site /run/nbagent /home /var /root".split()
    for at in (*places, sys.prefix, os.path.dirname(os.__file__)):
        try:
            os.close(os.open(at, os.O_TMPFILE | os.O_WRONLY))
        except OSError as error:
            if error.errno in refused:
                continue
        found.append(at)
    return found


@_attack("2", "Write to, replace, delete or touch the data", expected="read-only file system", control="files")
def write_to_data(host: Any) -> object:
    done = []
    attempts: tuple[tuple[str, Any], ...] = (
        ("appended", lambda: open(host["data_file"], "a").close()),
        ("created", lambda: open(host["data_folder"] + "/planted", "w").close()),
        ("renamed", lambda: os.rename(host["data_folder"] + "/inner.txt", host["data_folder"] + "/moved.txt")),
        ("changed its mode", lambda: os.chmod(host["data_file"], 0o777)),
        ("touched", lambda: os.utime(host["data_file"])),
        ("deleted", lambda: os.unlink(host["data_file"])),
    )
    for name, attempt in attempts:
        try:
            attempt()
            done.append(name)
        except OSError:
            continue
    return done
