"""A notebook assistant whose code runs in a sandboxed Jupyter kernel, and whose every answer is a notebook.

    async with Session(model="openai:gpt-5.6", data=["sales.csv"]) as session:
        answer = await session.ask("Which region grew fastest?")
        await session.export("growth.ipynb")

Names are imported when they are first used: `import nbagent` itself costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbagent.core.errors import NbagentError
    from nbagent.core.events import Answer, Cell, CodeBoxOutput, Event, Package, Record, Usage
    from nbagent.core.limits import Limits
    from nbagent.core.policy import InstallPolicy, TrustLevel
    from nbagent.faces.blocking import BlockingSession
    from nbagent.kernel.kernel import Kernel
    from nbagent.kernel.pool.pool import KernelConfig, KernelPool
    from nbagent.session.session import Session

__version__ = "0.1.0"

_HOMES = {
    "Answer": "nbagent.core.events",
    "BlockingSession": "nbagent.faces.blocking",
    "Cell": "nbagent.core.events",
    "CodeBoxOutput": "nbagent.core.events",
    "Event": "nbagent.core.events",
    "InstallPolicy": "nbagent.core.policy",
    "Kernel": "nbagent.kernel.kernel",
    "KernelConfig": "nbagent.kernel.pool.pool",
    "KernelPool": "nbagent.kernel.pool.pool",
    "Limits": "nbagent.core.limits",
    "NbagentError": "nbagent.core.errors",
    "Package": "nbagent.core.events",
    "Record": "nbagent.core.events",
    "Session": "nbagent.session.session",
    "TrustLevel": "nbagent.core.policy",
    "Usage": "nbagent.core.events",
    "SessionManager": "nbagent.session.manager",
    "attach": "nbagent.session.sharing.attach",
    "host": "nbagent.session.host_process",
    # What `%load_ext nbagent` and `%unload_ext nbagent` call.
    "load_ipython_extension": "nbagent.faces.magic.magic",
    "unload_ipython_extension": "nbagent.faces.magic.magic",
}

__all__ = [
    "Answer",
    "BlockingSession",
    "Cell",
    "CodeBoxOutput",
    "Event",
    "InstallPolicy",
    "Kernel",
    "KernelConfig",
    "KernelPool",
    "Limits",
    "NbagentError",
    "Package",
    "Record",
    "Session",
    "SessionManager",
    "TrustLevel",
    "Usage",
    "attach",
    "host",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nbagent' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
