"""Attacks that gain privileges: root, capabilities, another user."""

from __future__ import annotations

import contextlib
import glob
import os
import subprocess
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup

GROUP = ProbeGroup("privileges")
_attack = GROUP.attack
_REFUSED = "not permitted"


@_attack(
    "4",
    "Hold any privilege: capabilities, root, new privileges, no filter",
    expected="capabilities all 0, not root, NoNewPrivs 1, Seccomp 2",
    control="user",
)
def be_privileged(host: Any) -> object:
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    held = [name for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb") if int(status[name], 16)]
    if os.getuid() == 0 or 0 in os.getresuid() or 0 in os.getresgid() or 0 in os.getgroups():
        held.append("root")
    if int(status["NoNewPrivs"]) != 1:
        held.append("new privileges")
    if int(status["Seccomp"]) != 2:
        held.append("no filter")
    return held


@_attack("4", "Become root", expected=_REFUSED, control="user")
def become_root(host: Any) -> object:
    os.setresuid(0, 0, 0)
    return os.getuid() == 0


@_attack("4", "Be another user of the host than the person or the sandbox's own", expected="the sandbox's own user")
def be_somebody(host: Any) -> object:
    ids = {*os.getresuid(), *os.getresgid(), *os.getgroups()}
    # Linux shows ids that are not mapped into the user namespace as the overflow id.
    return sorted(ids - set(host["ids"]) - {65534})


@_attack("4", "Gain root by a program with the setuid bit", expected="it runs without root", control="user")
def gain_by_setuid_program(host: Any) -> object:
    if os.getuid() == 0:
        return "it is root already"
    programs = [at for folder in ("/bin", "/usr/bin", "/usr/sbin") for at in glob.glob(folder + "/*")]
    programs = [at for at in programs if os.path.isfile(at) and os.stat(at).st_mode & 0o4000]
    for program in programs:
        child = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=-3, stderr=-3)
        uids = []
        with contextlib.suppress(OSError, IndexError):
            uids = open(f"/proc/{child.pid}/status").read().split("Uid:")[1].splitlines()[0].split()
        child.kill()
        child.wait()
        if "0" in uids:
            return program
    return None
