"""Puts the JupyterLab panel into the wheel: hatchling runs this when it builds nbagent.

The panel is TypeScript, which Node builds into panel/build. The source distribution has that folder, so whoever builds
a wheel from it needs no Node. Where there is neither, or npm fetches nothing, the wheel has no panel, and a sentence
says so. With NBAGENT_PANEL=no in the environment, none is built.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = Path("panel", "build")
PLACE = "share/jupyter/labextensions/@nbagent/panel"
"""Where JupyterLab looks for extensions, below an environment's folder."""
WITHOUT = (
    "This nbagent has no JupyterLab panel, all else works: the panel is built with npm, its registry, and Node 20.19 "
    "or newer, which are not all here. Build again with them, or install a released wheel."
)


class PanelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the panel if that has not been done, and adds it to what is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Called by hatchling before it packs a wheel or a source distribution."""
        built = Path(self.root, BUILT)
        if not (built / "package.json").exists() and not _build(built.parent):
            print(WITHOUT, file=sys.stderr)
        elif self.target_name == "wheel":
            build_data["shared_data"][str(built)] = PLACE
        else:
            build_data["force_include"][str(built)] = str(BUILT)


def _build(panel: Path) -> bool:
    npm = shutil.which("npm")
    if npm is None or os.environ.get("NBAGENT_PANEL") == "no":
        return False
    if subprocess.run([Path(panel.parent, ".ci", "setup"), "node"], check=False).returncode != 0:
        return False
    if subprocess.run([npm, "run", "packages"], cwd=panel, check=False).returncode != 0:
        return False
    subprocess.run([npm, "run", "build"], cwd=panel, check=True)
    return True
