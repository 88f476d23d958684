"""What a person gives a session, checked: data, what its sandbox is to be, questions, names of engines and ways."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from nbagent.errors import DataError, UsageError
from nbagent.kernel.kernel import Restore
from nbagent.kernel.transfer.results import safe_name
from nbagent.mcp import servers
from nbagent.mcp.servers import Server
from nbagent.policy import Limits, Network, Trust, TrustLevel, asking, trust_for
from nbagent.sandbox.data.mounts import DATA, Mount, named
from nbagent.sandbox.registry import engines
from nbagent.sandbox.spec import SandboxSpec
from nbagent.settings import Settings

MAX_QUESTION = 200_000
"""Characters."""
WAYS: tuple[Restore, ...] = get_args(Restore)
"""What can become of a lost kernel's variables."""


Data = Iterable[str | Path | Mount] | Mapping[str, str | Path] | str | Path
"""Files and folders: one, several, or several by the names that the sandbox is to have them by."""


def resolve_data(data: Data) -> list[Mount]:
    """Where the sandbox will see each file and folder.

    Args:
        data: A name of the person's own gets the ending of its file: `{"sales 2024": "a.csv"}` is `sales_2024.csv`.

    Raises:
        DataError: One is missing, unreadable or special, or two have the same name.
    """
    if isinstance(data, Mapping):
        sources = [(_existing(given), str(name)) for name, given in data.items()]
        pairs = [(source, _file_name(name, source)) for source, name in sources]
    else:
        given = [data] if isinstance(data, str | Path) else list(data)
        named = [(each.source, PurePosixPath(each.target).name) for each in given if isinstance(each, Mount)]
        found = [_existing(each) for each in given if not isinstance(each, Mount)]
        pairs = [*((source, source.name) for source in found), *((_existing(source), name) for source, name in named)]
    mounts: dict[str, Mount] = {}
    for source, name in pairs:
        if name in mounts:
            other = mounts[name].source
            if other == source:
                continue
            raise DataError(
                f"{other} and {source} have the same name, and the sandbox sees both in one folder.",
                mend="Rename one, or give the folder that holds both.",
            )
        mounts[name] = Mount(source, f"{DATA}/{name}")
    return list(mounts.values())


def _file_name(name: str, source: Path) -> str:
    """What a file is called inside that a person gave a name of its own."""
    cleaned = safe_name(name.replace("/", "_").replace(" ", "_"))
    return cleaned if cleaned.endswith(source.suffix) else f"{cleaned}{source.suffix}"


def _existing(given: str | Path) -> Path:
    if not str(given).strip():
        raise DataError("The name of the data is empty.", mend="Give a file or a folder.")
    shown = str(given) if len(str(given)) <= 120 else f"{str(given)[:120]}…"
    try:
        source = named(given)
        os.fsencode(source).decode()
    except UnicodeError:
        raise DataError(f"The name {shown!r} is not UTF-8 text.", mend="Give the file another name.") from None
    except FileNotFoundError:
        raise DataError(f"There is no file or folder {shown!r}.", mend="Check the name and where you are.") from None
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"The data {shown!r} can't be used: {reason}.") from error
    if not source.is_file() and not source.is_dir():
        raise DataError(f"{shown!r} is neither a file nor a folder.", mend="Give a plain file or a folder.")
    if source == Path(source.anchor):
        raise DataError("The root of the file system can't be data.", mend="Give the folder that you mean.")
    try:
        with source.open("rb") if source.is_file() else contextlib.nullcontext():
            if source.is_dir():
                next(source.iterdir(), None)
    except OSError as error:
        raise DataError(f"{shown!r} can't be read: {error.strerror}.", mend="Check its permissions.") from error
    return source


def size_of(source: Path) -> int:
    """Bytes of a file, or of all files below a folder; counting stops at 100,000 files."""
    if source.is_file():
        return source.stat().st_size
    total = 0
    for number, path in enumerate(source.rglob("*")):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size if path.is_file() and not path.is_symlink() else 0
        if number > 100_000:
            break
    return total


def sandbox_spec(
    chosen: Settings,
    *,
    owner: str,
    data: Data = (),
    trust: str | None = None,
    limits: Limits | None = None,
    timeout: float | None = None,
    memory_mb: int | None = None,
    image: str | None = None,
    security: Mapping[str, Any] | None = None,
    accept: Sequence[str] = (),
    ask_hosts: bool = False,
) -> SandboxSpec:
    """What a session's sandbox is to be: by its arguments, and by the person's settings where these are None.

    Args:
        chosen: The person's settings.
        owner: The session's id.
        data: Files and folders that it sees read-only; as a dict, by names of the person's own.
        trust: The trust level's name.
        limits: Bounds that replace the trust level's own, whole.
        timeout: Seconds a cell may run.
        memory_mb: Memory in MiB.
        image: The Docker image.
        security: Security options that replace the trust level's own, by name.
        accept: Names of limits that may stay unenforced, besides those of the settings.
        ask_hosts: Whether a person is asked for hosts that aren't listed, which needs a network by list.

    Raises:
        UsageError: Something of this is wrong.
        DataError: Data is missing or unreadable.
    """
    mounts = resolve_data(data)
    own = chosen.security_options
    row = trust_for(
        TrustLevel.parse(chosen.trust if trust is None else trust),
        data_bytes=sum(size_of(mount.source) for mount in mounts),
        security={**(asking(own) if ask_hosts else own), **(security or {})},
        timeout=timeout,
        memory_mb=memory_mb,
        session_mb=chosen.session_mb,
        result_mb=chosen.result_mb,
    )
    if ask_hosts:
        check_asking(row)
    return SandboxSpec(
        trust=row if limits is None else replace(row, limits=limits),
        data=tuple(mounts),
        accept=frozenset([*chosen.accept, *([accept] if isinstance(accept, str) else accept)]),
        install=row.narrow(chosen.install_policy),
        image=image or chosen.image,
        owner=owner,
        keep=60 * chosen.keep_minutes,
    )


def check_asking(trust: Trust) -> None:
    """Complain where nobody would ever be asked for a host: who wants to be must not believe that they are.

    Raises:
        UsageError: The sandbox reaches all hosts, or none.
    """
    if trust.network is not Network.LISTED:
        reach = "every host" if trust.network is Network.FULL else "no hosts"
        raise UsageError(
            f"This session's code reaches {reach}, so it will not ask for any.",
            mend="Start a session with --ask-hosts, or with security options that permit a network.",
        )


def mcp_servers(given: str | Path | bool, *, default: Path | None) -> list[Server]:
    """The MCP servers of a session.

    Args:
        given: Their file, or whether those of the person are wanted.
        default: The person's file, if it isn't where it usually is.

    Raises:
        UsageError: The file can't be read or is wrong.
    """
    if given is False:
        return []
    return servers.load(default if given is True else Path(given).expanduser())


def known_restore(way: str) -> Restore:
    """The way to restore a lost kernel.

    Raises:
        UsageError: There is none of that name.
    """
    for each in WAYS:
        if each == way:
            return each
    raise UsageError(f"There is no way {way!r} to restore a kernel.", mend=f"Use one of: {', '.join(WAYS)}.")


def known_engine(name: str | None) -> str | None:
    """The engine's name, or None if it is to be chosen.

    Raises:
        UsageError: There is none of that name.
    """
    if name and name not in (known := engines()):
        raise UsageError(f"There is no engine {name!r}.", mend=f"Use one of: {', '.join(sorted(known))}.")
    return name or None


def clean_question(question: str) -> str:
    """The question as it can be sent and kept.

    Raises:
        UsageError: There is nothing to ask, or too much.
    """
    text = question.encode("utf-8", "replace").decode().replace("\0", "").strip()
    if not text:
        raise UsageError("The question is empty.", mend="Ask something, for example: What is in this data?")
    if len(text) > MAX_QUESTION:
        raise UsageError(f"The question has {len(text):,} characters.", mend="Put long material into a file: --data.")
    return text
