"""Attacks that read files of the host."""

from __future__ import annotations

import glob
import os
import time
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup

GROUP = ProbeGroup("files of the host")
_attack = GROUP.attack
_UNREADABLE = "no such file, or permission denied"


@_attack("1", "Read a file by its absolute path", expected=_UNREADABLE, control="files")
def read_by_absolute_path(host: Any) -> object:
    return open(host["canary"]).read()


@_attack("1", "Read it by `..` from the working folder", expected=_UNREADABLE, control="files")
def read_by_parent_folders(host: Any) -> object:
    return open(os.getcwd() + "/.." * 12 + host["canary"]).read()


@_attack(
    "1",
    "Read it through /proc/1/root",
    expected=_UNREADABLE,
    control="processes",
    held_anyway="the machine's own first process may be out of this user's reach",
)
def read_through_root_of_process_one(host: Any) -> object:
    return open("/proc/1/root" + host["canary"]).read()


@_attack("1", "Read it through /proc/self/root", expected=_UNREADABLE, control="files")
def read_through_own_root(host: Any) -> object:
    return open("/proc/self/root" + host["canary"]).read()


@_attack("1", "Read it through the folders of other processes (/proc/*/cwd, /proc/*/root)", expected=_UNREADABLE)
def read_through_folders_of_processes(host: Any) -> object:
    for at in (*glob.glob("/proc/[0-9]*/cwd"), *glob.glob("/proc/[0-9]*/root")):
        try:
            return open(at + "/.." * 12 + host["canary"]).read()
        except OSError:
            continue
    return None


@_attack("1", "Read it through a symbolic link in the data folder", expected="the link leads nowhere", control="files")
def read_through_link_in_data(host: Any) -> object:
    return open(host["data_folder"] + "/link").read()


@_attack(
    "30",
    "Read files of the host's through links in a folder that somebody else made (a cloned repository)",
    expected="links that lead out are not there",
    control="files",
)
def read_through_links_of_a_clone(host: Any) -> object:
    got = []
    for at in ("data.csv", "figures/table.csv", "first.csv", "sub/second.csv", "rootfs" + host["canary"]):
        try:
            got.append(at + ": " + open(host["clone"] + "/" + at).read())
        except OSError:
            continue
    return got


@_attack("30", "Read hidden files in the data, at any depth", expected="names that begin with a dot are not there")
def read_hidden_data(host: Any) -> object:
    got = []
    for top in (host["data_folder"], host["clone"]):
        for at, folders, files in os.walk(top):
            got += [os.path.join(at, name) for name in (*folders, *files) if name.startswith(".")]
            if len(got) > 9:
                break
    return got


@_attack(
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
    got = []
    for at in (".later-env", "later-inner/.env", ".later-git/config", "later-link", "later-folder/table.csv"):
        try:
            got.append(at + ": " + open(folder + "/" + at).read())
        except OSError:
            continue
    return got


@_attack(
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


@_attack("1", "List the folder of the sandboxes' sockets", expected=_UNREADABLE, control="files")
def list_the_runtime_folder(host: Any) -> object:
    return os.listdir(host["runtime"])


@_attack("1", "List the folder of the sessions' logs", expected=_UNREADABLE, control="files")
def list_the_state_folder(host: Any) -> object:
    return os.listdir(host["state"])
