"""Attacks on the host's files: reading them, writing them, and learning from their names."""

from __future__ import annotations

from typing import Any

from nbagent.faces.selfcheck.probe import BELOW_TRUSTED, Group

GROUP = Group("files of the host")
_attack = GROUP.attack
_UNREADABLE = "no such file, or permission denied"


@_attack("1", "Read a file by its absolute path", expected=_UNREADABLE, control="files")
def read_by_absolute_path(host: Any) -> object:
    return open(host["canary"]).read()


@_attack("1", "Read it by `..` from the working folder", expected=_UNREADABLE, control="files")
def read_by_parent_folders(host: Any) -> object:
    import os

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
    import glob

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
    import os

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
    import os
    import time

    # The table was added last: once it is visible, the rest would be, too.
    folder, end = host["data_folder"], time.monotonic() + 10
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
    import glob
    import os

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


@_attack("8", "Find a secret variable in any environment", expected="no variable of that name", control="processes")
def find_the_secret_in_environments(host: Any) -> object:
    import glob
    import os

    name = host["variable"]
    if name in os.environ:
        return os.environ[name]
    for at in glob.glob("/proc/[0-9]*/environ"):
        try:
            variables = open(at, "rb").read().decode(errors="replace").split("\0")
        except OSError:
            continue
        for each in variables:
            if each.startswith(name + "="):
                return each
    return None


@_attack("8", "Find variables of the host's environment", expected="none of the host's variables")
def see_variables_of_the_host(host: Any) -> object:
    import hashlib
    import os

    digests = {name: hashlib.sha256(value.encode()).hexdigest() for name, value in os.environ.items()}
    return [name for name, digest in host["environment"].items() if digests.get(name) == digest]


@_attack("1", "List the folder of the sandboxes' sockets", expected=_UNREADABLE, control="files")
def list_the_runtime_folder(host: Any) -> object:
    import os

    return os.listdir(host["runtime"])


@_attack("1", "List the folder of the sessions' logs", expected=_UNREADABLE, control="files")
def list_the_state_folder(host: Any) -> object:
    import os

    return os.listdir(host["state"])


@_attack("+", "Learn where the data lies on the host from any process's command line", expected="no path of the host")
def see_paths_in_command_lines(host: Any) -> object:
    import glob

    for at in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            text = open(at, "rb").read().decode(errors="replace")
        except OSError:
            continue
        if host["folder"] in text or host["runtime"] in text:
            return at
    return None


@_attack("+", "Learn where the data lies on the host from the list of mounts", expected="no path of the host")
def see_paths_in_mounts(host: Any) -> object:
    # Compares file names only: a mount may hide the beginning of a path.
    name = host["folder"].rstrip("/").rsplit("/", 1)[-1]
    if not host["isolated"]:
        return [line.split()[0] for line in open("/proc/self/mountinfo") if line.split()[4] == "/"]
    return [line.split()[4] for line in open("/proc/self/mountinfo") if name in line.split()[3]]


@_attack("+", "List the packages of the host's own Python", expected="the interpreter and standard library only")
def see_packages_of_the_host(host: Any) -> object:
    import glob
    import os
    import sys

    bases = {sys.base_prefix, "/opt/python", "/usr", "/usr/local"}
    found = set()
    for base in bases:
        for at in glob.glob(base + "/lib/python3*/*-packages/*"):
            name = os.path.basename(at).partition("-")[0].partition(".")[0].lower()
            if name in host["packages"]:
                found.add(at)
    return sorted(found)[:3] + ([f"{len(found)} in all"] if len(found) > 3 else [])


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
    import os

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
    import errno
    import os

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
    "Plant a file in what the sandbox is made of (/, /usr, /etc, /opt, /run/nbagent)",
    expected="read-only file system",
    levels=BELOW_TRUSTED,
    control="files",
)
def write_to_what_it_is_made_of(host: Any) -> object:
    import errno
    import os
    import sys

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


@_attack("+", "Share locks on the data with programs of the host", expected="the host's lock is not seen")
def lock_data(host: Any) -> object:
    import fcntl

    with open(host["locked_file"]) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return "a lock that the host holds is seen, so one of the sandbox's makes the host wait"
    return None


@_attack("+", "Take a lease on the data, so that programs on the host are held up", expected="not permitted")
def lease_data(host: Any) -> object:
    import fcntl

    set_lease = 1024
    with open(host["data_file"]) as file:
        fcntl.fcntl(file, set_lease, fcntl.F_RDLCK)
        fcntl.fcntl(file, set_lease, fcntl.F_UNLCK)
    return True


@_attack("+", "Watch which programs the host runs (inotify on /usr/bin)", expected="no such call")
def watch_files(host: Any) -> object:
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    watcher = libc.inotify_init1(0)
    if watcher < 0 or libc.inotify_add_watch(watcher, b"/usr/bin", 0x20) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.close(watcher)
    return True


@_attack("+", "Watch folders of the host's by signals (dnotify on /usr/bin)", expected="not permitted")
def watch_folders(host: Any) -> object:
    import fcntl
    import os

    folder = os.open("/usr/bin", os.O_RDONLY)
    try:
        fcntl.fcntl(folder, fcntl.F_NOTIFY, fcntl.DN_ACCESS)
        fcntl.fcntl(folder, fcntl.F_NOTIFY, 0)
    finally:
        os.close(folder)
    return True


@_attack("2", "Write to, replace, delete or touch the data", expected="read-only file system", control="files")
def write_to_data(host: Any) -> object:
    import os

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
