"""Builds the Docker image of a kernel from `kernels/`, without a network in the build: the host fetches the wheels.

The base image needs nothing but a Python, which is asked for its version first, so that the wheels fit it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbagent.core import errors
from nbagent.packages import pinned
from nbagent.sandbox import environment
from nbagent.sandbox.engines import daemon
from nbagent.sandbox.untrusted import parse

DEFAULT_BASE = "python:3.13-slim-bookworm"
ASK = (
    "import json, platform, sys;"
    "print(json.dumps([platform.python_version(), platform.machine(), *platform.libc_ver(), sys.base_prefix]))"
)

ASK_SECONDS, ASK_BYTES, ASK_PIDS = 60, 256 * 1024 * 1024, 64
"""What a base image's Python may take to say so."""
PLAIN = re.compile(r"[A-Za-z0-9_.+-]{0,60}")
"""A version, or the name of a machine or a C library; Python knows neither of some C libraries."""
MAX_SAID = 16 * 1024
"""Bytes that are read of what a base image's Python prints."""


def default_tag() -> str:
    """The tag of nbagent's own kernel image, by a digest of the files that it is built from."""
    made_of = [(environment.kernels() / name).read_bytes() for name in ("Dockerfile", "requirements.txt")]
    digest = hashlib.sha256(b"".join([*made_of, str(environment.LAYOUT).encode()]))
    return f"nbagent-kernel:{digest.hexdigest()[:12]}"


async def build(
    *, base: str = DEFAULT_BASE, tag: str | None = None, force: bool = False, say: Callable[[str], object] = print
) -> str:
    """Build the kernel image if it isn't there; returns its tag."""
    wanted = tag or default_tag()
    with contextlib.closing(daemon.connect(timeout=1800)) as client:
        python, platform, prefix = _ask(client, base)
        if not force and _built_on(client, wanted) == (base, python):
            say(f"{wanted} is there already.")
            return wanted
        say(f"{base} has Python {python} on {platform}.")
        with tempfile.TemporaryDirectory(prefix="nbagent-image-") as folder:
            context = Path(folder)
            version = ".".join(python.split(".")[:2])
            kernel = context / "kernel"
            site = kernel / "lib" / f"python{version}" / "site-packages"
            site.mkdir(parents=True)
            say("Fetching the kernel's packages …")
            await asyncio.to_thread(
                pinned.fill, site, pins=environment.requirements(), python=python, platform=platform, say=say
            )
            shutil.rmtree(site / "bin", ignore_errors=True)
            environment.make_venv(kernel, version=version)
            shutil.copyfile(environment.kernels() / "Dockerfile", context / "Dockerfile")
            say("Building …")
            arguments = {"BASE": base, "PYTHON": python, "VERSION": version, "PLATFORM": platform, "PREFIX": prefix}
            _run(client, context, tag=wanted, arguments=arguments)
    say(f"Built {wanted}.")
    return wanted


def _ask(client: Any, base: str) -> tuple[str, str, str]:
    """The base image's Python, platform and prefix, by running it, as anybody's, in bounds and without a network."""
    from docker.errors import APIError, DockerException, ImageNotFound
    from requests.exceptions import ConnectionError, Timeout

    try:
        try:
            known = client.inspect_image(base)
        except ImageNotFound:
            client.pull(*_name_and_tag(base))
            known = client.inspect_image(base)
        if known["Config"].get("OnBuild"):
            raise errors.EnvironmentMissing(
                f"The base image {base} has commands for what is built on it (ONBUILD), which the daemon would run.",
                mend="Name another one with --base IMAGE.",
            )
        made = client.create_container(
            base,
            entrypoint=["python3", "-c", ASK],
            healthcheck={"test": ["NONE"]},
            host_config=_bounded(client, known),
        )
        try:
            client.start(made["Id"])
            status = client.wait(made["Id"], timeout=ASK_SECONDS)["StatusCode"]
            said = client.logs(made["Id"], tail=20)[-MAX_SAID:].decode(errors="replace").strip()
        finally:
            client.remove_container(made["Id"], v=True, force=True)
    except (ConnectionError, Timeout) as error:
        raise errors.EnvironmentMissing(
            f"The base image {base} did not say in {ASK_SECONDS} s which Python it has.",
            mend="Name another one with --base IMAGE.",
        ) from error
    except (APIError, DockerException) as error:
        reason = getattr(error, "explanation", None) or error
        raise errors.EnvironmentMissing(
            f"The base image {base} can't be used: {reason}", mend="Name one that is there with --base IMAGE."
        ) from error
    if status != 0:
        raise errors.EnvironmentMissing(f"The base image {base} has no working python3: {said[-300:]}")
    try:
        python, machine, library, glibc, prefix = parse(said.splitlines()[-1], list[str], limit=MAX_SAID)
        if not all(map(PLAIN.fullmatch, (python, machine, library, glibc))):
            raise ValueError(said)
        version = tuple(map(int, python.split(".")[:2]))
    except (ValueError, LookupError):
        raise errors.EnvironmentMissing(f"The base image {base} has no working python3: {said[-300:]}") from None
    if library != "glibc" or version < (3, 11):
        raise errors.EnvironmentMissing(
            f"The base image {base} has Python {python} on {library or 'another C library'}.",
            mend="Use a base with Python 3.11 or newer and glibc.",
        )
    return python, f"{machine}-manylinux_{'_'.join(glibc.split('.')[:2])}", prefix


def _bounded(client: Any, image: dict[str, Any]) -> Any:
    """A container in which code of anybody's does no harm while it says what it is."""
    from docker.types import LogConfig

    return client.create_host_config(
        network_mode="none",
        read_only=True,
        tmpfs=daemon.without_volumes(image),
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        mem_limit=ASK_BYTES,
        memswap_limit=ASK_BYTES,
        pids_limit=ASK_PIDS,
        log_config=LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}),
    )


def _built_on(client: Any, tag: str) -> tuple[str, str] | None:
    """The base that an image of nbagent's was built on, and its Python; None if there is no such image."""
    from docker.errors import ImageNotFound

    try:
        labels = client.inspect_image(tag)["Config"].get("Labels") or {}
    except ImageNotFound:
        return None
    return labels.get("nbagent.base", ""), labels.get("nbagent.python", "")


def _name_and_tag(image: str) -> tuple[str, str]:
    name, colon, tag = image.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (image, "latest")


def _run(client: Any, context: Path, *, tag: str, arguments: dict[str, str]) -> None:
    from docker.errors import BuildError, DockerException

    packed = tempfile.TemporaryFile()  # noqa: SIM115 - handed to the build, closed below
    with packed:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(context, arcname=".", filter=_of_root)
        packed.seek(0)
        try:
            steps = client.build(
                fileobj=packed, custom_context=True, tag=tag, buildargs=arguments, network_mode="none", rm=True,
                forcerm=True, decode=True,
            )  # fmt: skip
            for step in steps:
                if "error" in step:
                    raise errors.EnvironmentMissing(f"The kernel image could not be built: {step['error'].strip()}")
        except (BuildError, DockerException) as error:
            raise errors.EnvironmentMissing(f"The kernel image could not be built: {error}") from error


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make a file root's and readable by everybody, whatever the umask was here."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode |= 0o555 if entry.isdir() or entry.mode & 0o100 else 0o444
    return entry
