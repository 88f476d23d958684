"""The server's own exports: nbconvert imports whatever module a notebook names for its script.

Code in a sandbox may have written that name, and the module: nothing that is not installed for it is imported.
"""

from __future__ import annotations

import contextlib
import importlib
from importlib.metadata import entry_points
from typing import Any

from jupyter_server.nbconvert import handlers

_get_exporter: Any = handlers.get_exporter


def guard() -> None:
    """Have exports import no module but those that are installed as exporters, from the next one on."""
    handlers.get_exporter = _guarded


def _guarded(format: str, **given: Any) -> Any:
    # Only now, since the import takes long, and many servers export nothing.
    with contextlib.suppress(ImportError):
        vars(importlib.import_module("nbconvert.exporters.script"))["get_exporter"] = _installed
    return _get_exporter(format, **given)


def _installed(name: str, config: Any = None) -> Any:
    """The exporter of a name that a notebook gives."""
    base = importlib.import_module("nbconvert.exporters.base")
    known = {each.value.replace(":", ".") for each in entry_points(group="nbconvert.exporters")}
    if "." in name and name not in known:
        raise base.ExporterNameError(f"The notebook names {name[:80]}, which is not installed as an exporter.")
    return base.get_exporter(name, config)
