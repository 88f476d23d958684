"""What only tests ask of a sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.machine.sandbox import MachineSandbox
from nbagent.sandbox.spec import SandboxSpec


def sandbox_of(kernel: Kernel) -> MachineSandbox:
    """The sandbox that a kernel runs in at the moment."""
    found = kernel._process.sandbox
    assert isinstance(found, MachineSandbox)
    return found


async def value(kernel: Kernel, code: str, **arguments: Any) -> Any:
    """What a cell prints as JSON in its last line."""
    cell = await kernel.run(code, **arguments)
    assert cell.status == "ok", (cell.note, cell.outputs)
    # What Python warns of goes to standard error, and is not it.
    text = "".join(each["text"] for each in cell.outputs if each.get("name") == "stdout")
    return json.loads(text.splitlines()[-1])


def isolated_with(**limits: Any) -> SandboxSpec:
    """The default level with other limits."""
    return SandboxSpec(trust=trust_for(TrustLevel.ISOLATED, **limits))


def group_value(pid: int, controller: str, names: tuple[str, ...]) -> str:
    """The first of these files of the control group that a process is in."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        bases = ([controller] if controller in controllers.split(",") else []) + ([""] if not controllers else [])
        for base in bases:
            for name in names:
                at = Path("/sys/fs/cgroup") / base / path.lstrip("/") / name
                if at.is_file():
                    return at.read_text().strip()
    raise AssertionError(f"no group of {controller} binds process {pid}")
