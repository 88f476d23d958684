"""Attacks by the installer on the host, which serves `%pip install`."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from nbagent.faces.selfcheck.probe import ProbeGroup

GROUP = ProbeGroup("packages")
_attack = GROUP.attack


@_attack(
    "28",
    "Have nbagent install from an address, a path, a repository, or with options",
    expected="each refused before anything runs",
    held_anyway="nbagent's own process decides it, whatever the engine",
)
def install_by_address(host: Any) -> object:
    door = host["door"] if os.path.exists(host["door"]) else "/run/nbagent/host.sock"
    taken = []
    for wanted in (
        "nbagent-probe @ https://127.0.0.1/nbagent_probe-1-py3-none-any.whl",
        "git+https://127.0.0.1/nbagent-probe.git",
        "file:///etc/passwd",
        "../nbagent-probe",
        "--index-url=http://127.0.0.1/ nbagent-probe",
        "nbagent-probe; rm -rf /nowhere",
        "nbagent-probe\n--find-links=/",
    ):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(door)
            client.sendall(json.dumps({"install": [wanted]}).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n") and (more := client.recv(65536)):
                answer += more
        if "error" not in json.loads(answer or b'{"error": "closed"}'):
            taken.append(wanted)
    return taken
