"""Where nbagent keeps what lasts: the state folder, the names of sessions, and the data that exported notebooks need.

STATE/sessions/ID/      one session, see `session_log.py`
STATE/exports/          for each folder with exported notebooks, the data that they need
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any

import platformdirs

from nbagent.core import fileio
from nbagent.core.errors import UsageError
from nbagent.core.events import DataSeen

RESULTS = "nbagent-output"
"""The folder of what code saves, in the folder where a person works."""
PROGRESS = "progress"
"""The name of the file that says how far the making of an environment is."""
LOG_FILE = "log.jsonl"
"""The name of a session's log in its folder."""
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def state_root(override: str | Path | None = None) -> Path:
    """The folder of all of this person's state: sessions, tools, audit heads."""
    return Path(override).expanduser() if override else platformdirs.user_state_path("nbagent")


def environments() -> Path:
    """The folder of all kernel environments."""
    return platformdirs.user_cache_path("nbagent") / "environments"


def progress() -> str:
    """What the process that makes a kernel environment says of it, which holds their `lock`; empty if none does."""
    try:
        told = (environments() / PROGRESS).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    return told if fileio.is_locked(environments() / "lock") else ""  # else it was killed


def is_straight(folder: Path, *, here: Path) -> bool:
    """Whether no link is on the way from here to a folder, or in its place: somebody else may have made it."""
    return str((here / folder).resolve()) == os.path.normpath(here.resolve() / folder)


def new_session_id() -> str:
    """A unique id that sorts by time: `20261121-064512-3fa9`."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def is_session_id(id: str) -> bool:
    """Whether a session can be called so."""
    return _SESSION_ID.fullmatch(id) is not None


def check_session_id(session: str) -> None:
    """Check that a session's id is one plain folder name.

    Raises:
        UsageError: It is not.
    """
    if not is_session_id(session):
        raise UsageError(
            f"A session can't be called {session[:80]!r}.",
            mend="Use up to 64 letters, digits, dots, dashes and underscores.",
        )


def remember_export(root: Path, notebook: Path, data: list[DataSeen]) -> None:
    """Note which data the notebooks in a folder need, so that kernels of Jupyter's clients there see it, too."""
    path = _exports(root, notebook.parent)
    known = recall_exports(root, notebook.parent)
    known.update({each.path: each.source for each in data})
    fileio.save(path, json.dumps(known, indent=1).encode(), mode=fileio.PRIVATE_MODE)  # it has paths of the person's


def recall_exports(root: Path, folder: Path) -> dict[str, str]:
    """The data of the notebooks that were exported to a folder, as path in the sandbox → path on the host."""
    try:
        known: Any = json.loads(_exports(root, folder).read_text())
    except (OSError, ValueError):
        return {}
    return {str(path): str(source) for path, source in known.items()} if isinstance(known, dict) else {}


def _exports(root: Path, folder: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
    return root / "exports" / f"{digest}.json"
