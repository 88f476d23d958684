"""A package index of the test's own on loopback, installers that use it, and looks at what they have left."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from packaging.utils import canonicalize_name

from nbagent.core import fileio
from nbagent.core.errors import InstallError
from nbagent.core.policy import InstallPolicy
from nbagent.packages.installer import Installer
from nbagent.packages.requirements import Target

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PLATFORM = "x86_64-manylinux_2_36"
PINS = """numpy==2.3.5 --hash=sha256:00
pyzmq==27.1.0 \\
    --hash=sha256:00
# a comment
colorama==0.4 ; os_name == 'nt'
"""

Make = Callable[..., Installer]


def wheel(
    name: str, version: str, *, files: dict[str, str], requires: tuple[str, ...] = (), packed: bool = False
) -> bytes:
    """A pure wheel with these files, compressed if `packed`."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    inside = files | {f"{info}/METADATA": metadata, f"{info}/WHEEL": tags}
    record = ""
    for path, text in inside.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for path, text in (inside | {f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}).items():
            archive.writestr(path, text)
    return made.getvalue()


class Index:
    """A package index on loopback: JSON of PEP 691 and 700, and what can go wrong with one."""

    def __init__(self) -> None:
        self.pages: dict[str, list[dict[str, Any]]] = {}
        self.bodies: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.failures = 0
        self.delay = threading.Event()
        self.arrived = threading.Event()
        self.slow = False
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self)

            def do_HEAD(self) -> None:
                index.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        """Stop it, so that its port refuses connections."""
        self.delay.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One request: a simple page or a file."""
        self.requests.append(request.path)
        self.arrived.set()
        if self.slow:
            self.delay.wait(30)
            return
        if self.failures:
            self.failures -= 1
            self.send(request, 503, b"busy", "text/plain")
        elif request.path.startswith("/simple/"):
            name = request.path.split("/")[2]
            page = {"meta": {"api-version": "1.1"}, "name": name, "files": self.pages.get(name, [])}
            kind = "application/vnd.pypi.simple.v1+json"
            self.send(request, 200 if name in self.pages else 404, json.dumps(page).encode(), kind)
        else:
            self.send(request, 200, self.bodies[request.path], "application/octet-stream")

    def send(self, request: BaseHTTPRequestHandler, status: int, body: bytes, kind: str) -> None:
        """An answer. Pages are asked for again each time, files never, as on an index at large."""
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Cache-Control", "max-age=0" if kind.startswith("application/vnd") else "max-age=86400")
        request.end_headers()
        if request.command == "GET":
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                request.wfile.write(body)

    def add(
        self,
        name: str,
        version: str = "1.0",
        *,
        files: dict[str, str] | None = None,
        requires: tuple[str, ...] = (),
        days: float | None = 30,
        source: bool = False,
        sha256: str = "",
        cut: int = 0,
        stated: int | None = None,
        packed: bool = False,
    ) -> str:
        """Publish a wheel (or a source distribution) and return its hash.

        `days` is its age and `stated` its size as the index has them, None for unstated.
        """
        stem = f"{name.replace('-', '_')}-{version}"
        contents = files if files is not None else {f"{name.replace('-', '_')}/__init__.py": f"version = {version!r}\n"}
        body = b"no archive" if source else wheel(name, version, files=contents, requires=requires, packed=packed)
        filename = f"{stem}.tar.gz" if source else f"{stem}-py3-none-any.whl"
        digest = sha256 or hashlib.sha256(body).hexdigest()
        entry: dict[str, Any] = {"filename": filename, "url": f"{self.url}/files/{filename}"}
        entry["hashes"] = {"sha256": digest}
        if stated is not None:
            entry["size"] = stated
        if days is not None:
            uploaded = datetime.now(UTC) - timedelta(days=days)
            entry["upload-time"] = uploaded.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.pages.setdefault(canonicalize_name(name), []).append(entry)
        self.bodies[f"/files/{filename}"] = body[: len(body) - cut]
        return digest


@pytest.fixture
def own_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Uv with a cache and a configuration of the test's own."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield
    fileio.remove(tmp_path / "cache")  # which may be too deep for pytest to remove


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An empty index that uv takes for the only one."""
    made = Index()
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{made.url}/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "1")
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where the packages go."""
    return tmp_path / "session" / "site"


@pytest.fixture
def make(tmp_path: Path, site: Path) -> Make:
    """Makes an installer for the site folder; keywords go to the policy."""

    def installer(*, pins: str = PINS, folder: Path = site, platform: str = PLATFORM, **policy: Any) -> Installer:
        file = tmp_path / "pins.txt"
        file.write_text(pins)
        target = Target(python=PYTHON, platform=platform, pins=file)
        return Installer(folder, target=target, policy=InstallPolicy(**policy))

    return installer


def tree(folder: Path) -> dict[str, str]:
    """Every path below a folder with the hash of its content; nothing may lie beside it but the ledger."""
    beside = {path.name for path in folder.parent.iterdir()} - {
        folder.name,
        f"{folder.name}.json",
        f"{folder.name}-asked.json",
    }
    assert beside == set(), "a staging folder was left"
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


def children() -> list[str]:
    """What installers have started and what still runs; a server that other tests share is none of theirs."""
    found = []
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(each.name())
    return [name for name in found if name.startswith("uv")]


def python(code: str) -> str:
    """What a fresh Python prints."""
    return subprocess.check_output([sys.executable, "-c", code], text=True)


async def refused(installer: Installer, *requirements: str, match: str) -> InstallError:
    """The failure of an install, after a look that nothing has changed."""
    before, known = tree(installer.site), dict(installer.installed)
    with pytest.raises(InstallError, match=match) as caught:
        await installer.install(requirements)
    assert tree(installer.site) == before
    assert installer.installed == known
    return caught.value
