"""Downloads and unpacks wheels whose hashes are known, with uv; from its cache if that has them all.

A wheel with the right hash is the right wheel, wherever it lies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from nbagent.core import fileio
from nbagent.core.concurrency import to_the_end
from nbagent.core.errors import InstallError, InstallRefused
from nbagent.packages import uv
from nbagent.packages.requirements import Target
from nbagent.packages.resolver import ANYWHERE, Wheel, age_arguments, compile_arguments, read_lock, render_lock, write
from nbagent.packages.uv import IndexUnreachableError, shorten


async def fetch(wheels: list[Wheel], *, target: Target, most: int | None, work: Path) -> None:
    """Unpack exactly these wheels into `work/site`, from the cache if it has them all."""
    write(work / "pylock.toml", render_lock(wheels))
    await _unpack("pylock.toml", [], target=target, most=most, work=work)


async def fetch_locked(
    lines: list[str],
    *,
    target: Target,
    min_age_days: float,
    most: int | None,
    work: Path,
    before_asking: Callable[[], Awaitable[None]],
    before_download: Callable[[int], Awaitable[None]],
) -> None:
    """Unpack the wheels of lines with versions and hashes into `work/site`, from the cache if it has them all.

    Args:
        lines: Lines of a requirements file.
        target: The sandbox's Python.
        min_age_days: Days that a release must be old.
        most: Bytes that all may have; None for any number.
        work: A private folder with a `uv.toml` of its own.
        before_asking: Called before the index is asked for any of them, unless the cache has them all; what it raises
            passes.
        before_download: Called then with the bytes of all wheels, as the index states them; the same.
    """
    write(work / "locked.txt", lines)
    options = age_arguments((), min_age_days)

    async def look() -> None:
        await before_asking()
        deadline = asyncio.get_running_loop().time() + uv.RESOLVE_SECONDS
        arguments = [*await to_the_end(compile_arguments, target, "locked.txt"), "--no-deps"]
        code, output, error = await uv.run([*arguments, *options], work=work, deadline=deadline)
        if code and uv.has_further_indexes():
            # By its hash a file is the same one wherever it lies, and another index may say how old it is.
            options.extend(ANYWHERE)
            code, output, error = await uv.run([*arguments, *options], work=work, deadline=deadline)
        if code:
            raise fetch_failure(error)
        await before_download(sum(each.size for each in read_lock(output)))

    await _unpack("locked.txt", options, target=target, most=most, work=work, before_download=look)


async def _unpack(
    listed: str,
    options: list[str],
    *,
    target: Target,
    most: int | None,
    work: Path,
    before_download: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Unpack the wheels of a file with hashes, from the cache if it has them all; the rest is as for `fetch_locked`.

    What `before_download` raises passes; it may add to uv's options.
    """
    deadline = asyncio.get_running_loop().time() + uv.FETCH_SECONDS
    wanted = uv.install_arguments(work / "site", listed, await to_the_end(uv.target_arguments, target))
    cached = [*wanted, *options, *ANYWHERE, "--offline"]
    code, _, error = await uv.run(cached, work=work, deadline=deadline, most=most)
    if code:
        await to_the_end(fileio.remove, work / "site")
        if before_download is not None:
            await before_download()
            deadline = asyncio.get_running_loop().time() + uv.FETCH_SECONDS
        code, _, error = await uv.run([*wanted, *options], work=work, deadline=deadline, most=most)
    if code:
        raise fetch_failure(error)


def fetch_failure(error: str) -> InstallError:
    """The error for a failed download or unpacking."""
    if "Hash mismatch" in error:
        return InstallRefused(f"A wheel is not the one that the index announced: {shorten(error)}")
    kind = IndexUnreachableError if uv.unreachable(error) else InstallError
    return kind(f"A wheel can't be fetched: {shorten(error)}", mend=uv.way_out(error))
