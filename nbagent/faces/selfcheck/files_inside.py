"""Attacks that read files of the host, and that write to it: its files, the sandbox's root, the person's data."""

from __future__ import annotations

import errno
import glob
import os
import sys
import time
from typing import Any

from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, ProbeGroup, unrefused

READING = ProbeGroup("files of the host")
WRITING = ProbeGroup("writing to the host", control="files")
_reading = READING.attack
_writing = WRITING.attack
_UNREADABLE = "no such file, or permission denied"


@_reading("1", "Read a file by its absolute path", expected=_UNREADABLE, control="files")
def read_by_absolute_path(host: Any) -> object:
    return open(host["canary"]).read()


@_reading("1", "Read it by `..` from the working folder", expected=_UNREADABLE, control="files")
def read_by_parent_folders(host: Any) -> object:
    return open(os.getcwd() + "/.." * 12 + host["canary"]).read()


@_reading(
    "1",
    "Read it through /proc/1/root",
    expected=_UNREADABLE,
    control="processes",
    held_anyway="the machine's own first process may be out of this user's reach",
)
def read_through_root_of_process_one(host: Any) -> object:
    return open("/proc/1/root" + host["canary"]).read()


@_reading("1", "Read it through /proc/self/root", expected=_UNREADABLE, control="files")
def read_through_own_root(host: Any) -> object:
    return open("/proc/self/root" + host["canary"]).read()


@_reading("1", "Read it through the folders of other processes (/proc/*/cwd, /proc/*/root)", expected=_UNREADABLE)
def read_through_folders_of_processes(host: Any) -> object:
    folders = (*glob.glob("/proc/[0-9]*/cwd"), *glob.glob("/proc/[0-9]*/root"))
    return unrefused(lambda at: open(at + "/.." * 12 + host["canary"]).read(), folders)[:1]


@_reading("1", "Read it through a symbolic link in the data folder", expected="the link leads nowhere", control="files")
def read_through_link_in_data(host: Any) -> object:
    return open(host["data_folder"] + "/link").read()


@_reading(
    "30",
    "Read files of the host's through links in a folder that somebody else made (a cloned repository)",
    expected="links that lead out are not there",
    control="files",
)
def read_through_links_of_a_clone(host: Any) -> object:
    links = ("data.csv", "figures/table.csv", "first.csv", "sub/second.csv", "rootfs" + host["canary"])
    return unrefused(lambda at: at + ": " + open(host["clone"] + "/" + at).read(), links)


@_reading("30", "Read hidden files in the data, at any depth", expected="names that begin with a dot are not there")
def read_hidden_data(host: Any) -> object:
    got = []
    for top in (host["data_folder"], host["clone"]):
        for at, folders, files in os.walk(top):
            got += [os.path.join(at, name) for name in (*folders, *files) if name.startswith(".")]
            if len(got) > 9:
                break
    return got


@_reading(
    "30",
    "Read what comes into the data later: hidden files, links, a folder that becomes one",
    expected="only the table that came with them is there",
    control="files",
)
def read_what_comes_later(host: Any) -> object:
    # The table was added last: once it is visible, the rest would be, too.
    folder, end = host["data_folder"], time.monotonic() + 2 * host["patience"]
    while not os.path.exists(folder + "/later.csv"):
        if time.monotonic() > end:
            raise RuntimeError("nothing that came later is seen")
        time.sleep(0.1)
    later = (".later-env", "later-inner/.env", ".later-git/config", "later-link", "later-folder/table.csv")
    return unrefused(lambda at: at + ": " + open(folder + "/" + at).read(), later)


@_reading(
    "8",
    "Read it through a file that nbagent has open (/proc/*/fd)",
    expected="no descriptor leads outside",
    held_anyway="nbagent hands no open file to any kernel, isolated or not",
)
def read_through_descriptors(host: Any) -> object:
    own = ("socket:[", "pipe:[", "anon_inode:", "/dev/null", "/tmp/", "/proc/", "/workspace", "/dev/pts", "/memfd:")
    mounts = {line.split()[0] for line in open("/proc/self/mountinfo")}
    for at in glob.glob("/proc/self/fd/*"):
        try:
            leads = os.readlink(at)
            about = dict(line.split(":", 1) for line in open(at.replace("/fd/", "/fdinfo/")) if ":" in line)
        except OSError:
            continue
        # Libraries in the sandbox open files for reading themselves (libffi opens its own).
        seen_anyway = about["mnt_id"].strip() in mounts and int(about["flags"], 8) & os.O_ACCMODE == os.O_RDONLY
        if leads == host["canary"] or (host["isolated"] and not leads.startswith(own) and not seen_anyway):
            return leads
    return None


@_reading("1", "List the folder of the sandboxes' sockets", expected=_UNREADABLE, control="files")
def list_the_runtime_folder(host: Any) -> object:
    return os.listdir(host["runtime"])


@_reading("1", "List the folder of the sessions' logs", expected=_UNREADABLE, control="files")
def list_the_state_folder(host: Any) -> object:
    return os.listdir(host["state"])


@_writing("2", "Write into a folder of the host that anybody may write to", expected=_UNREADABLE)
def write_to_a_folder_of_the_host(host: Any) -> object:
    with open(host["tree"] + "/planted", "w") as file:
        file.write("x")
    return True


@_writing(
    "10",
    "Plant start-up files where the host runs them (IPython, .pth, git hooks, kernel.json, nbagent's settings)",
    expected="no such folder",
)
def plant_start_up_files(host: Any) -> object:
    def plant(name: str) -> None:
        with open(os.path.join(host["tree"], name), "w") as file:
            file.write("raise SystemExit")

    return unrefused(plant, host["start_up"])


@_writing(
    "2",
    "Write to every mount",
    expected="only to tmpfs folders of its own, and to harmless devices",
    levels=BELOW_TRUSTED,
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


@_writing(
    "10",
    "Plant a file in the sandbox's root (/, /usr, /etc, /opt, /run/nbagent)",
    expected="read-only file system",
    levels=BELOW_TRUSTED,
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


@_writing("2", "Write to, replace, delete or touch the data", expected="read-only file system")
def write_to_data(host: Any) -> object:
    file, folder = host["data_file"], host["data_folder"]
    attempts = {
        "appended": lambda: open(file, "a").close(),
        "created": lambda: open(folder + "/planted", "w").close(),
        "renamed": lambda: os.rename(folder + "/inner.txt", folder + "/moved.txt"),
        "changed its mode": lambda: os.chmod(file, 0o777),
        "touched": lambda: os.utime(file),
        "deleted": lambda: os.unlink(file),
    }
    return unrefused(lambda name: attempts[name](), attempts)
