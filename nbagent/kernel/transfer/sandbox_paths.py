"""Which files of a sandbox may be read and written from outside, and where they are inside. Pure.

People and models name files by the paths that they have in every isolating engine, and may name those below `/tmp` and
`/workspace` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbagent.core.errors import TransferLimit
from nbagent.core.text import ends, printable

if TYPE_CHECKING:
    from nbagent.sandbox.contract import About

INVALID = "Invalid path: must be /tmp/* or /workspace/*"
ROOTS = ("/workspace", "/tmp")  # noqa: S108 - paths inside
MAX_NAME_BYTES = 255
"""Bytes of one part of a path; more Linux doesn't take."""
MAX_PATH_BYTES = 4000
"""Bytes of a path; Linux takes 4,095."""
MAX_FILE_BYTES = 2**63 - 1
"""Bytes of the largest file that Linux can have; also the latest time of a file, in nanoseconds."""


@dataclass(frozen=True)
class SandboxPath:
    """The path of a file or folder of a sandbox.

    Attributes:
        path: As people name it, absolute.
        base: The folder, as code inside names it, from which the way is followed; code can't replace it by a link.
        parts: The names on the way from the base.
    """

    path: str
    base: str
    parts: tuple[str, ...]

    @property
    def inside(self) -> str:
        """The path as code inside names it."""
        return "/".join([self.base, *self.parts])


def clean_path(path: str) -> str:
    """A path without needless slashes and dots.

    Raises:
        TransferLimit: It leads out of /tmp and /workspace, or no file can have it.
    """
    parts = [part for part in str(path).split("/") if part not in ("", ".")]
    if not str(path).startswith("/") or not parts or f"/{parts[0]}" not in ROOTS or ".." in parts or "\0" in path:
        raise TransferLimit(INVALID)
    try:
        # In a name that isn't UTF-8, Python has a surrogate for each byte that it can't decode.
        sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    except UnicodeEncodeError:
        raise TransferLimit(f"No file can be called {display(path)}.") from None
    if max(sizes) > MAX_NAME_BYTES or sum(sizes) + len(sizes) > MAX_PATH_BYTES:
        raise TransferLimit(
            f"The path is too long: a name has at most {MAX_NAME_BYTES} bytes, a path {MAX_PATH_BYTES:,}."
        )
    return "/" + "/".join(parts)


def file_at(path: str, about: About) -> SandboxPath:
    """Where a file is.

    Raises:
        TransferLimit: The path must not be used, or can only be a folder's.
    """
    cleaned = clean_path(path)
    if cleaned in ROOTS or str(path).endswith(("/", "/.")):
        raise TransferLimit(INVALID)
    return _place(cleaned, about)


def folder_at(path: str, about: About) -> SandboxPath:
    """Where a folder is.

    Raises:
        TransferLimit: The path must not be used.
    """
    return _place(clean_path(path), about)


def _place(path: str, about: About) -> SandboxPath:
    moved = {"/workspace": about.workspace_folder, "/tmp/output": about.output_folder}  # noqa: S108
    for named, there in moved.items():
        if there != named and f"{path}/".startswith(f"{named}/"):
            return SandboxPath(path, there, tuple(path.split("/")[named.count("/") + 1 :]))
    _, root, *parts = path.split("/")
    return SandboxPath(path, f"/{root}", tuple(parts))


def display(path: str) -> str:
    """A path, or another text of a sandbox's, for a message: hidden characters are made visible, and it is cut."""
    text = path.encode("utf-8", "replace").decode()
    return ends(printable(text), head=70, tail=50, mark=lambda _: "…")


def clamp_time(time: int) -> int:
    """A file's time in nanoseconds, as a sandbox claims it, cut to the 292 years around 1970 that 64 bits hold."""
    return min(max(-MAX_FILE_BYTES, time), MAX_FILE_BYTES)
