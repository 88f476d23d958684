"""The scratch folder of a sandbox: a private one on disk beside its lease, for its packages and the mirror of its data.

CACHE/sandboxes/s-…/lease     which lease it belongs to, and on which machine that is
site/     packages, seen at /opt/site
data/     the mirror, seen at /tmp/data
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import platformdirs

from nbagent.core import fileio
from nbagent.core.errors import SandboxError
from nbagent.sandbox.leases import origin


def root() -> Path:
    """The folder of all scratch folders: on the same file system as uv's cache usually is."""
    return platformdirs.user_cache_path("nbagent") / "sandboxes"


def make() -> Path:
    """Make a scratch folder."""
    folder = root()
    try:
        fileio.make_folder(folder, mode=0o755)
        return Path(tempfile.mkdtemp(prefix="s-", dir=folder))
    except OSError as error:
        raise SandboxError(f"{folder} can't be written: {error}.", mend="Make room, or set XDG_CACHE_HOME.") from error


def folders() -> list[Path]:
    """All scratch folders."""
    return sorted(root().glob("s-*")) if root().is_dir() else []


def site(folder: Path) -> Path:
    """The folder of installed packages in a scratch folder."""
    return folder / "site"


def settle(folder: Path, lease: Path) -> None:
    """Note in a scratch folder which lease it belongs to, and make the folder of its packages.

    Raises:
        OSError: There is no room.
    """
    origin.note(lease, at=folder / "lease")
    site(folder).mkdir(mode=0o755, exist_ok=True)
    site(folder).chmod(0o755)


def is_abandoned(folder: Path) -> bool | None:
    """Whether the lease of a scratch folder is certainly gone; None if the folder doesn't say which it is."""
    return origin.is_gone(folder / "lease")
