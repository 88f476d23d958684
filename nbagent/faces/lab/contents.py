"""Paths that a page gives: as JupyterLab has them, below the root folder of the server, and never out of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_server.services.contents.filemanager import FileContentsManager

from nbagent.core.errors import DataError

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

REPLAY = "replay:"


class Contents:
    """What a page can name; `refused` is what the person may not do with these files, such as `read`."""

    def __init__(self, manager: ContentsManager, *, refused: str = "") -> None:
        self._refused = refused
        # Another kind may keep its files elsewhere, and calls the root of the host its root folder.
        self._is_local = isinstance(manager, FileContentsManager)
        self._root = Path(manager.root_dir).resolve()
        self._shows_hidden = bool(manager.allow_hidden)

    def path(self, given: str) -> Path:
        """The place on the host of a file or folder, which needn't be there; no link leads out of the root folder."""
        shown = given[:200]
        if self._refused:
            raise DataError(f"You may not {self._refused} the files of this server.", mend="Ask whoever runs it.")
        if not self._is_local:
            raise DataError("The files of this server are not on its machine.", mend="Upload the file to the session.")
        named = Path(given.strip("/"))
        if not given.strip("/") or "\0" in given or ".." in named.parts:
            raise DataError(f"{shown!r} is no file or folder of this server.", mend="Give its path there.")
        try:
            found = (self._root / named).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise DataError(f"{shown!r} can't be found: {error}.") from error
        if not found.is_relative_to(self._root) or found == self._root:
            raise DataError(f"{shown!r} leads out of the folder of this server.", mend="Copy it there.")
        parts = (*named.parts, *found.relative_to(self._root).parts)
        if not self._shows_hidden and any(each.startswith(".") for each in parts):
            raise DataError(f"{shown!r} is hidden.", mend="Name it without a dot, or set ContentsManager.allow_hidden.")
        return found

    def model(self, name: str) -> str:
        """A model's name, in which the file of recorded replies is at its place on the host."""
        name = name.strip()  # as whoever opens the model reads it
        return REPLAY + str(self.path(name.removeprefix(REPLAY))) if name.startswith(REPLAY) else name
