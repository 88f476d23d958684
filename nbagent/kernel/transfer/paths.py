"""Which files of a sandbox may be written and read from outside, and where they are inside. Pure.

People and models name a file as every isolating engine has it. Only `/tmp/*` and `/workspace/*` are theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nbagent.core.errors import TransferLimit
from nbagent.core.text import ends, printable

INVALID = "Invalid path: must be /tmp/* or /workspace/*"
ROOTS = ("/workspace", "/tmp")  # noqa: S108 - paths inside
MAX_NAME = 255
"""Bytes of one part of a path, which is Linux's own bound."""
MAX_PATH = 4000
"""Bytes of a path; Linux takes 4,095."""
MAX_SIZE = 2**63 - 1
"""Bytes of a file, which is Linux's own bound; the largest time in nanoseconds that is told of one, too."""


@dataclass(frozen=True)
class Place:
    """A file or folder inside.

    Attributes:
        path: As people name it, absolute.
        base: The folder inside that stands at the top of it, which code can't replace by a link.
        parts: The way from there, name by name.
    """

    path: str
    base: str
    parts: tuple[str, ...]


class Folders(Protocol):
    """Where an engine has the folders that code writes to; all but `local` have them where they are named."""

    @property
    def output_folder(self) -> str:
        """What people know as `/tmp/output`."""

    @property
    def workspace_folder(self) -> str:
        """What people know as `/workspace`."""


def clean_path(path: str) -> str:
    """The path without needless slashes and dots.

    Raises:
        TransferLimit: It leads anywhere else than below /tmp or /workspace, or no system takes it.
    """
    parts = [part for part in str(path).split("/") if part not in ("", ".")]
    if not str(path).startswith("/") or not parts or f"/{parts[0]}" not in ROOTS or ".." in parts or "\0" in path:
        raise TransferLimit(INVALID)
    try:
        # A name that is no text has its odd bytes as single surrogates, as Python reads it from a folder.
        sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    except UnicodeEncodeError:
        raise TransferLimit(f"No file can be called {shown(path)}.") from None
    if max(sizes) > MAX_NAME or sum(sizes) + len(sizes) > MAX_PATH:
        raise TransferLimit(f"The path is too long: a name has at most {MAX_NAME} bytes, a path {MAX_PATH:,}.")
    return "/" + "/".join(parts)


def file_at(path: str, folders: Folders) -> Place:
    """The place of a file.

    Raises:
        TransferLimit: The path is none that may be used, or can only be a folder's.
    """
    cleaned = clean_path(path)
    if cleaned in ROOTS or str(path).endswith(("/", "/.")):
        raise TransferLimit(INVALID)
    return _place(cleaned, folders)


def folder_at(path: str, folders: Folders) -> Place:
    """The place of a folder.

    Raises:
        TransferLimit: The path is none that may be used.
    """
    return _place(clean_path(path), folders)


def _place(path: str, folders: Folders) -> Place:
    moved = {"/workspace": folders.workspace_folder, "/tmp/output": folders.output_folder}  # noqa: S108
    for named, there in moved.items():
        if there != named and f"{path}/".startswith(f"{named}/"):
            return Place(path, there, tuple(path.split("/")[named.count("/") + 1 :]))
    _, root, *parts = path.split("/")
    return Place(path, f"/{root}", tuple(parts))


def shown(path: str) -> str:
    """A path as it may stand in a sentence: what code named so to mislead a reader is visible, and short."""
    text = path.encode("utf-8", "replace").decode()
    return ends(printable(text), head=70, tail=50, mark=lambda _: "…")


def within(time: int) -> int:
    """A time of a file as a sandbox claims it, in nanoseconds: cut to 292 years around 1970, which fits 64 bits."""
    return min(max(-MAX_SIZE, time), MAX_SIZE)
