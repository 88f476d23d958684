"""Which sandboxed kernels the server offers: not those that surely can't start here, as long as another one may.

Without another one they stay in the list: a notebook whose kernel is in no list is given one of the same language by
JupyterLab, by itself if there is only one, and that could be a kernel without a sandbox. Whoever starts one that can't
start is told why.
"""

from __future__ import annotations

import os
import shutil
import socket
from typing import Any


def _load_jupyter_server_extension(server: Any) -> None:
    """Have the server leave them out of its list; whoever names one still has it started."""
    manager = server.kernel_spec_manager
    get_all_specs = manager.get_all_specs

    def get_offered_specs() -> Any:
        found = get_all_specs()
        return offered(found) if isinstance(found, dict) else found  # a gateway's kernels are on another machine

    manager.get_all_specs = get_offered_specs


def offered(specs: dict[str, Any]) -> dict[str, Any]:
    """The kernelspecs that are offered of all; pages ask for them again and again, so it takes under a millisecond.

    Args:
        specs: By their names. Those of sandboxed kernels say in `metadata.nbagent.needs` what they can't start without:
            a `program`, or a `socket`, which may have another address by the environment's `variable`.
    """
    all_needs = {name: each["spec"].get("metadata", {}).get("nbagent", {}).get("needs") for name, each in specs.items()}
    met = {name: _is_met(needs) for name, needs in all_needs.items() if needs}
    return {name: each for name, each in specs.items() if met.get(name, True) or not any(met.values())}


def _is_met(needs: dict[str, str]) -> bool:
    if program := needs.get("program"):
        return shutil.which(program) is not None
    address = os.environ.get(needs.get("variable", ""), f"unix://{needs['socket']}")
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
