"""Marks the kernelspecs of sandboxed kernels that surely can't start here.

JupyterLab's launcher leaves those out. Its other lists keep them and say so: a notebook whose kernel is in no list is
given another by JupyterLab, maybe without a question, and that could be one without a sandbox. Whoever starts one that
can't start is told why.
"""

from __future__ import annotations

import os
import shutil
import socket
from typing import Any


def mark(manager: Any) -> None:
    """Have the server's manager of kernelspecs mark them whenever a page asks which kernels there are."""
    get_all_specs = manager.get_all_specs

    def get_marked_specs() -> Any:
        found = get_all_specs()
        return marked(found) if isinstance(found, dict) else found  # a gateway's kernels are on another machine

    manager.get_all_specs = get_marked_specs


def marked(specs: dict[str, Any]) -> dict[str, Any]:
    """The kernelspecs, those that can't start with `metadata.nbagent.absent`; takes well under a millisecond.

    Those of sandboxed kernels say in `metadata.nbagent.needs` what they can't start without: a `program`, or a
    `socket`, which may have another address by the environment's `variable`.
    """
    return {name: each | {"spec": _marked(each["spec"])} for name, each in specs.items()}


def _marked(spec: dict[str, Any]) -> dict[str, Any]:
    metadata = spec.get("metadata", {})
    needs = metadata.get("nbagent", {}).get("needs")
    if not needs or _is_met(needs):
        return spec
    name = f"{spec['display_name']}: can't start here"
    return spec | {"display_name": name, "metadata": metadata | {"nbagent": metadata["nbagent"] | {"absent": True}}}


def _is_met(needs: dict[str, str]) -> bool:
    if program := needs.get("program"):
        return shutil.which(program) is not None
    address = os.environ.get(needs.get("variable", ""), f"unix://{needs.get('socket', '')}")
    if not address.startswith("unix://"):
        return True  # a machine far away may take long to answer
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        try:
            connection.connect(address.removeprefix("unix://"))
        except BlockingIOError:
            return True  # it is there, and busy
        except OSError:
            return False
    return True
