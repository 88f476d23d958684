"""What the person who runs the Jupyter server has set, and where that says the sessions are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbagent.core import folders, settings
from nbagent.core.errors import UsageError
from nbagent.session.manager import SessionManager

SETTING = "nbagent_lab"
"""The setting of the web application that has the `Config`."""


class NoSessionError(UsageError):
    """There is no session of that id."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The traits of the extension, of which an empty text stands for what the person's settings say."""

    state_dir: str = ""
    model: str = ""
    trust: str = ""
    engine: str = ""
    approvals: str = ""
    max_upload_mb: int = 1024

    @property
    def root(self) -> Path:
        """The folder of all sessions."""
        return settings.state_root(self.state_dir).absolute()

    @property
    def manager(self) -> SessionManager:
        """The sessions below that folder."""
        return SessionManager(state_dir=self.root)

    @property
    def defaults(self) -> dict[str, Any]:
        """The options of new sessions that are set here, and that questions wait for a page while none is open."""
        names = ("model", "trust", "engine", "approvals")
        return {"attended": True} | {name: value for name in names if (value := getattr(self, name))}

    def folder(self, id: str) -> Path:
        """The folder of a session, by its whole id."""
        folder = self.root / "sessions" / id
        if not folders.is_session_id(id) or folder.is_symlink() or not folder.is_dir():
            raise NoSessionError(f"There is no session {id[:80]!r}.", mend="It may have been deleted.")
        return folder
