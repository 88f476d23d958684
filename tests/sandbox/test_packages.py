"""The host's installer, with a real uv and a package index of the test's own on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from nbagent.errors import EnvironmentMissing, InstallError, InstallRefused
from nbagent.events import Package
from nbagent.policy import InstallPolicy
from nbagent.sandbox import packages
from nbagent.sandbox.packages import IndexUnreachableError, Installer, Target, environment, fill, parse, read_pins

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PLATFORM = "x86_64-manylinux_2_36"
PINS = """numpy==2.3.5 --hash=sha256:00
pyzmq==27.1.0 \\
    --hash=sha256:00
# a comment
colorama==0.4 ; os_name == 'nt'
"""


def wheel(name: str, version: str, *, files: dict[str, str], requires: tuple[str, ...] = ()) -> bytes:
    """A pure wheel with these files."""
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
    with zipfile.ZipFile(made, "w") as archive:
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
    ) -> str:
        """Publish a wheel (or a source distribution) and return its hash. `days` is its age, None for unstated."""
        stem = f"{name.replace('-', '_')}-{version}"
        contents = files if files is not None else {f"{name.replace('-', '_')}/__init__.py": f"version = {version!r}\n"}
        body = b"no archive" if source else wheel(name, version, files=contents, requires=requires)
        filename = f"{stem}.tar.gz" if source else f"{stem}-py3-none-any.whl"
        digest = sha256 or hashlib.sha256(body).hexdigest()
        entry: dict[str, Any] = {"filename": filename, "url": f"{self.url}/files/{filename}"}
        entry["hashes"] = {"sha256": digest}
        if days is not None:
            uploaded = datetime.now(UTC) - timedelta(days=days)
            entry["upload-time"] = uploaded.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.pages.setdefault(canonicalize_name(name), []).append(entry)
        self.bodies[f"/files/{filename}"] = body[: len(body) - cut]
        return digest


@pytest.fixture(autouse=True)
def own_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uv with a cache and a configuration of the test's own."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


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


Make = Callable[..., Installer]


@pytest.fixture
def make(tmp_path: Path, site: Path) -> Make:
    """Makes an installer for the site folder; keywords go to the policy."""

    def installer(*, pins: str = PINS, folder: Path = site, **policy: Any) -> Installer:
        file = tmp_path / "pins.txt"
        file.write_text(pins)
        target = Target(python=PYTHON, platform=PLATFORM, pins=file)
        return Installer(folder, target=target, policy=InstallPolicy(**policy))

    return installer


def tree(folder: Path) -> dict[str, str]:
    """Every path below a folder with the hash of its content; nothing may lie beside it but the ledger."""
    beside = {path.name for path in folder.parent.iterdir()} - {folder.name, f"{folder.name}.json"}
    assert beside == set(), "a staging folder was left"
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


def children() -> list[str]:
    """The processes that this one has started and that still run."""
    return [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]


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


# -- what succeeds


async def test_a_package_and_its_dependency_can_be_imported(index: Index, make: Make, site: Path) -> None:
    """They are unpacked into the site folder, and recorded with the hash of the exact wheel."""
    app, lib = index.add("my-app", requires=("lib>=1",)), index.add("Lib", "1.5")
    installer = make()
    added = await installer.install(["My.App"])
    assert sorted(added, key=lambda package: package.name) == [
        Package("lib", "1.5", lib, requested=False),
        Package("my-app", "1.0", app, requested=True),
    ]
    assert installer.installed == {package.name: package for package in added}
    code = f"import sys; sys.path.append({str(site)!r}); import my_app, Lib; print(my_app.version, Lib.version)"
    assert python(code) == "1.0 1.5\n"


async def test_extras_and_versions_are_honoured(index: Index, make: Make) -> None:
    """`name[extra]<version` takes the highest version that fits, and what the extra requires."""
    for version in ("1.0", "2.0", "3.0"):
        index.add("app", version)
    added = await make().install(["app<3,>=1"])
    assert [(package.name, package.version) for package in added] == [("app", "2.0")]


async def test_what_is_there_needs_no_work(index: Index, make: Make) -> None:
    """A package of the sandbox, or one that was installed before, asks no index."""
    index.add("app")
    installer = make()
    assert await installer.install(["numpy>=2"]) == []
    assert index.requests == []
    assert len(await installer.install(["app"])) == 1
    asked = len(index.requests)
    assert await installer.install(["app", "app==1.0", "numpy"]) == []
    assert len(index.requests) == asked


async def test_dependencies_that_the_sandbox_has_are_not_installed_again(index: Index, make: Make) -> None:
    """Resolution takes the sandbox's version, however young, and leaves it where it is."""
    index.add("numpy", "2.3.5", days=0)
    index.add("numpy", "2.4.0")
    index.add("app", requires=("numpy>=2",))
    assert [package.name for package in await make().install(["app"])] == ["app"]


async def test_a_wheel_in_the_cache_is_not_fetched_again(index: Index, make: Make, tmp_path: Path) -> None:
    """Another session's install of the same wheel asks the index which one it is, and nothing more."""
    index.add("app")
    await make().install(["app"])
    index.requests.clear()
    await make(folder=tmp_path / "other" / "site").install(["app"])
    assert [path for path in index.requests if path.startswith("/files/")] == []
    assert index.requests, "a cached resolution could hide that the index has withdrawn a release"


async def test_concurrent_requests_take_turns(index: Index, make: Make) -> None:
    """Of two requests for the same package one does the work."""
    index.add("app")
    installer = make()
    results = await asyncio.gather(installer.install(["app"]), installer.install(["app"]))
    assert sorted(len(added) for added in results) == [0, 1]


async def test_a_resumed_session_knows_what_is_installed(index: Index, make: Make) -> None:
    """A new installer on the same site folder has the old one's packages, without asking."""
    index.add("app")
    first = make()
    await first.install(["app"])
    asked = len(index.requests)
    second = make()
    assert second.installed == first.installed
    assert await second.install(["app"]) == []
    assert len(index.requests) == asked


async def test_everybody_can_read_what_was_installed(index: Index, make: Make, site: Path) -> None:
    """The sandbox has another uid, so a person's umask of 077 must not reach it; nobody else may write."""
    index.add("app", files={"app/__init__.py": "", "app/deep/er.py": ""})
    before = os.umask(0o077)
    try:
        await make().install(["app"])
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [site, *site.rglob("*")] if path.is_dir()}
    assert modes == {0o755}
    assert {stat.S_IMODE(path.stat().st_mode) for path in site.rglob("*") if path.is_file()} == {0o644}


async def test_the_cache_shares_no_file_with_the_site_folder(index: Index, make: Make, site: Path) -> None:
    """Uv's default would link them hard, and then they would have one mode and one content."""
    index.add("app")
    await make().install(["app"])
    assert {path.stat().st_nlink for path in site.rglob("*") if path.is_file()} == {1}


async def test_scripts_of_the_host_are_left_out(index: Index, make: Make, site: Path) -> None:
    """An entry point's script would name the host's Python; the folder for scripts goes when nothing else is in it."""
    points = {"app-1.0.dist-info/entry_points.txt": "[console_scripts]\napp = app:main\n"}
    index.add("app", files={"app/__init__.py": "def main(): ...\n", **points})
    await make().install(["app"])
    assert sorted(path.name for path in site.iterdir()) == ["app", "app-1.0.dist-info"]


async def test_namespace_packages_are_merged(index: Index, make: Make, site: Path) -> None:
    """Two distributions may share a folder without an `__init__.py`, installed one after the other."""
    index.add("space-one", files={"space/one.py": "", "LICENSE": "one", "tests/test_it.py": "one"})
    index.add("space-two", files={"space/two.py": "", "LICENSE": "two", "tests/test_it.py": "two"})
    installer = make()
    await installer.install(["space-one"])
    await installer.install(["space-two"])
    assert sorted(path.name for path in (site / "space").iterdir()) == ["one.py", "two.py"]
    assert (site / "LICENSE").read_text() == "one"
    assert (site / "tests/test_it.py").read_text() == "one"


# -- the form of a request

BAD = [
    "",
    " ",
    "app --index-url=http://evil.test/simple",
    "--index-url=http://evil.test/simple",
    "-r requirements.txt",
    "git+https://evil.test/app",
    "file:///etc/passwd",
    "./app",
    "/tmp/app.whl",
    "app.whl @ file:///tmp/app.whl",
    "app @ https://evil.test/app.whl",
    "app;rm -rf /",
    "app; python_version > '3'",
    "app\nother",
    "app\n",
    "app && id",
    "$(id)",
    "`id`",
    "app|id",
    "app>=",
    "app[",
    "äpp",
    "app\x00",
    "a" * 101,
    "app==" + "1" * 300,
]


@pytest.mark.parametrize("text", BAD)
async def test_only_plain_requirements_are_accepted(text: str, index: Index, make: Make) -> None:
    """Anything else is refused before uv runs, with the accepted form and the request, shortened."""
    index.add("app")
    error = await refused(make(), text, match="is not a plain package name")
    assert isinstance(error, InstallRefused)
    assert "pandas[excel]>=2.2,<3" in str(error)
    assert repr(text[:20])[1:-1] in str(error)
    assert len(str(error)) < 300
    assert index.requests == []


async def test_an_empty_request_is_refused(make: Make) -> None:
    """No names, no work, and not a silent success."""
    assert isinstance(await refused(make(), match="Nothing was named"), InstallRefused)


@given(st.text(max_size=60) | st.text("ab-_.[],<>=!~ @;/:\n*+1", max_size=30))
def test_what_is_accepted_is_one_plain_line(text: str) -> None:
    """Whatever the text, it is refused or becomes a requirement without URL, marker or line end."""
    try:
        requirement = parse(text)
    except InstallRefused:
        return
    assert requirement.url is None
    assert requirement.marker is None
    assert str(requirement).isprintable()
    assert str(requirement)[0].isalnum()


# -- policy


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"enabled": False}, "switched off"),
        ({"deny": frozenset({"App"})}, "denies the package app"),
        ({"deny": frozenset({"LIB"})}, "denies the package lib, which is a dependency"),
        ({"allow": frozenset({"other"})}, "does not allow the package app. Allowed: other"),
    ],
)
async def test_policy_decides(policy: dict[str, Any], reason: str, index: Index, make: Make) -> None:
    """Names are compared in normalised form; deny reaches dependencies too."""
    index.add("app", requires=("lib",))
    index.add("lib")
    assert isinstance(await refused(make(**policy), "APP", match=reason), InstallRefused)


async def test_dependencies_of_an_allowed_package_come_along(index: Index, make: Make) -> None:
    """The allow list is about what is asked for."""
    index.add("app", requires=("lib",))
    index.add("lib")
    assert len(await make(allow=frozenset({"App"})).install(["app"])) == 2


async def test_an_older_release_is_taken_instead_of_a_young_one(index: Index, make: Make) -> None:
    """The minimum age is no refusal where something older fits."""
    index.add("app", "1.0", days=10)
    index.add("app", "2.0", days=1)
    assert [package.version for package in await make(min_age_days=3).install(["app"])] == ["1.0"]


@pytest.mark.parametrize("asked", ["app", "app==2.0", "needs-app"])
async def test_a_release_that_is_too_young_is_refused(asked: str, index: Index, make: Make) -> None:
    """The refusal names the release, its age and the minimum; a source of an older one doesn't blur that."""
    index.add("app", "1.0", days=10, source=True)
    index.add("app", "2.0", days=1)
    index.add("needs-app", requires=("app",))
    reason = r"Too young: app 2\.0 \(released 1\.0 days ago\)\. .*at least 3 days"
    assert isinstance(await refused(make(min_age_days=3), asked, match=reason), InstallRefused)
    assert await make(min_age_days=0).install(["app"])


async def test_a_release_of_unstated_age_is_refused(index: Index, make: Make) -> None:
    """An index that doesn't say when a file was uploaded can't be held to a minimum age."""
    index.add("app", days=None)
    await refused(make(), "app", match="doesn't say when it was uploaded")
    assert await make(min_age_days=0).install(["app"])


async def test_the_persons_configuration_cannot_lower_the_minimum_age(index: Index, make: Make, tmp_path: Path) -> None:
    """Uv's own configuration may exempt a package from uv's limit; nbagent's policy still holds."""
    (tmp_path / "config" / "uv").mkdir(parents=True)
    (tmp_path / "config" / "uv" / "uv.toml").write_text("exclude-newer-package = { app = false }\n")
    index.add("app", days=1)
    await refused(make(), "app", match="Too young")


# -- what the index can't give


async def test_a_name_that_does_not_exist_is_refused(index: Index, make: Make) -> None:
    """The reason reminds that language models invent names."""
    error = await refused(make(), "pandas-magic-utils", match="no distribution called pandas-magic-utils")
    assert isinstance(error, InstallRefused)
    assert "invent names" in str(error)
    assert index.requests == ["/simple/pandas-magic-utils/"]


async def test_a_dependency_that_does_not_exist_is_refused(index: Index, make: Make) -> None:
    """It isn't said of the package that was asked for."""
    index.add("app", requires=("nowhere",))
    await refused(make(), "app", match="depends on nowhere, which the index doesn't have")


async def test_source_distributions_are_not_built(index: Index, make: Make) -> None:
    """Building runs a stranger's code on the host; the file isn't even fetched."""
    index.add("app", source=True)
    assert isinstance(await refused(make(), "app", match="app comes as source only"), InstallRefused)
    assert [path for path in index.requests if path.startswith("/files/")] == []


async def test_a_version_that_does_not_exist_is_an_error(index: Index, make: Make) -> None:
    """The reason is uv's."""
    index.add("app")
    await refused(make(), "app>=9", match=r"No versions fit together.*app>=9")


async def test_a_conflict_with_the_sandbox_is_an_error(index: Index, make: Make) -> None:
    """What the kernel's environment has stays, whoever needs another version."""
    index.add("numpy", "2.3.5")
    index.add("numpy", "3.0")
    index.add("app", requires=("numpy>=3",))
    await refused(make(), "app", match="No versions fit together.*numpy")
    await refused(make(), "numpy==3.0", match=r"numpy 2\.3\.5 is part of the sandbox")


async def test_an_installed_version_is_not_replaced(index: Index, make: Make) -> None:
    """The running kernel may have imported it; the error says that a restart is needed."""
    index.add("app", "1.0")
    index.add("app", "2.0")
    index.add("needs-two", requires=("app>=2",))
    installer = make()
    await installer.install(["app<2"])
    await refused(installer, "app==2.0", match="installed in this session.*Restart needed")
    await refused(installer, "needs-two", match="No versions fit together")


# -- a hostile or broken wheel


async def test_a_wheel_with_another_hash_is_refused(index: Index, make: Make) -> None:
    """What was announced and what came differ."""
    index.add("app", sha256="0" * 64)
    assert isinstance(await refused(make(), "app", match="not the one that the index announced"), InstallRefused)


@pytest.mark.parametrize("cut", [20, 200])
async def test_a_truncated_wheel_is_an_error(cut: int, index: Index, make: Make) -> None:
    """Nothing of it stays."""
    index.add("app", files={"app/__init__.py": "x = 1\n" * 50}, cut=cut)
    await refused(make(), "app", match=r"can't be (fetched|read)|not the one")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"evil.pth": "import os\n"}, r"evil 1\.0 contains evil\.pth"),
        ({"zmq/__init__.py": ""}, r"evil 1\.0 would bring zmq,"),
        ({"zmq.py": ""}, r"would bring zmq\.py"),
        ({"ipykernel/kernelbase.py": ""}, "would bring ipykernel"),
        ({"tornado.cpython-311-x86_64-linux-gnu.so": ""}, "would bring tornado"),
        ({"sitecustomize.py": ""}, "would bring sitecustomize"),
        ({"evil-1.0.data/purelib/zmq/x.py": ""}, "would bring zmq"),
        ({"evil-1.0.data/data/evil.pth": ""}, "contains evil.pth"),
    ],
)
async def test_a_wheel_that_reaches_into_the_kernel_is_refused(
    files: dict[str, str], reason: str, index: Index, make: Make
) -> None:
    """`.pth` files, the kernel's modules and start-up modules, by whatever way a wheel carries them."""
    index.add("evil", files={"evil/__init__.py": "", **files})
    assert isinstance(await refused(make(), "evil", match=reason), InstallRefused)


async def test_a_dependency_that_reaches_into_the_kernel_is_refused(index: Index, make: Make) -> None:
    """And the package that asked for it isn't installed either."""
    index.add("app", requires=("evil",))
    index.add("evil", files={"zmq/__init__.py": ""})
    await refused(make(), "app", match="evil 1.0 would bring zmq")


async def test_a_wheel_that_climbs_out_writes_nothing_outside(
    index: Index, make: Make, site: Path, tmp_path: Path
) -> None:
    """A path with `..` in a wheel is dropped by uv; were it not, this test would find the file."""
    index.add("evil", files={"evil/__init__.py": "", "../escaped.py": "", "../../escaped.py": "", "/escaped.py": ""})
    with contextlib.suppress(InstallError):
        await make().install(["evil"])
    assert list(tmp_path.rglob("escaped.py")) in ([], [site / "escaped.py"])
    assert not Path("/escaped.py").exists()


async def test_a_known_harmless_pth_is_left_out(index: Index, make: Make, site: Path) -> None:
    """Old namespace packages and setuptools carry one that a site folder has no use for."""
    index.add("space", files={"space/one.py": "", "space-1.0-nspkg.pth": "import sys\n"})
    await make().install(["space"])
    assert list(site.rglob("*.pth")) == []


async def test_a_kernel_module_may_come_from_its_own_distribution(index: Index, make: Make, site: Path) -> None:
    """Where the sandbox has no `six`, the distribution of that name may bring it."""
    index.add("six", files={"six.py": ""})
    await make().install(["six"])
    assert (site / "six.py").exists()


async def test_a_package_does_not_overwrite_another(index: Index, make: Make) -> None:
    """Two distributions with the same file and other content don't mix."""
    index.add("one", files={"same/__init__.py": "1"})
    index.add("two", files={"same/__init__.py": "2", "same/more.py": ""})
    installer = make()
    await installer.install(["one"])
    await refused(installer, "two", match=r"__init__\.py in same is there already")


async def test_a_move_that_fails_is_taken_back(index: Index, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the second rename fails, the first one is undone."""
    index.add("app", files={"app/__init__.py": "", "second.py": ""})
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "second.py":
            raise OSError("no space left")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    await refused(make(), "app", match="no space left")


# -- an index in trouble


async def test_a_busy_index_is_asked_again(index: Index, make: Make) -> None:
    """A 503 or two are no failure."""
    index.add("app")
    index.failures = 1
    assert len(await make().install(["app"])) == 1


async def test_an_index_that_stays_busy_is_given_up(index: Index, make: Make) -> None:
    """After a bounded number of tries, with its status in the reason."""
    index.failures = 1000
    started = time.monotonic()
    assert isinstance(await refused(make(), "app", match="503"), IndexUnreachableError)
    assert time.monotonic() - started < 30
    assert len(index.requests) < 10


async def test_an_index_that_is_gone_is_an_error(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refused connection is not taken for a name that doesn't exist."""
    gone = Index()
    gone.close()
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://person:secret@127.0.0.1:{gone.server.server_port}/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    error = await refused(make(), "app", match="can't be read")
    assert isinstance(error, IndexUnreachableError)
    assert "secret" not in str(error)


async def test_an_index_that_hangs_is_given_up(index: Index, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is nbagent's own, and uv doesn't outlive it."""
    monkeypatch.setattr(packages, "RESOLVE_SECONDS", 1.0)
    index.slow = True
    assert isinstance(await refused(make(), "app", match="did not answer in time"), IndexUnreachableError)
    assert children() == []


async def test_a_cancelled_install_leaves_nothing(index: Index, make: Make, site: Path) -> None:
    """Neither uv nor a staging folder, and the next request isn't blocked."""
    index.add("app")
    installer = make()
    index.slow = True
    task = asyncio.create_task(installer.install(["app"]))
    assert await asyncio.to_thread(index.arrived.wait, 20)
    assert children() != []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == []
    assert tree(site) == {}
    index.slow = False
    assert len(await installer.install(["app"])) == 1


def test_a_loop_that_ends_is_not_held_up(index: Index, make: Make, site: Path) -> None:
    """Wherever an install stands when its event loop ends, it stops, and takes uv and the staging folder along."""
    index.add("app")
    index.slow = True

    async def leave(turns: int) -> None:
        left = asyncio.ensure_future(make().install(["app"]))
        for _ in range(turns):
            await asyncio.sleep(0.002 if turns > 6 else 0)
        assert not left.done()

    for turns in range(10):
        thread = threading.Thread(target=asyncio.run, args=(leave(turns),), daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert children() == []
    assert tree(site) == {}


# -- by module


async def test_a_module_is_installed_from_its_distribution(index: Index, make: Make) -> None:
    """`yaml` comes from PyYAML, once: a second request for the module is refused without work."""
    index.add("PyYAML", files={"yaml/__init__.py": ""})
    installer = make()
    assert [package.name for package in await installer.install_module("yaml.nodes")] == ["pyyaml"]
    asked = len(index.requests)
    for module, reason in (
        ("yaml.nodes", "once in this session"),
        ("yaml.other", r"PyYAML 1\.0 is installed, and has"),
    ):
        with pytest.raises(InstallError, match=reason):
            await installer.install_module(module)
    assert len(index.requests) == asked


async def test_a_distribution_without_the_module_is_not_installed(index: Index, make: Make, site: Path) -> None:
    """A guess that brings something else is undone, and not tried again."""
    index.add("thing", files={"other/__init__.py": ""})
    installer = make()
    for _ in range(2):
        with pytest.raises(InstallRefused, match=r"thing 1\.0 doesn't contain the module thing"):
            await installer.install_module("thing")
        assert tree(site) == {}
    assert len([path for path in index.requests if path.startswith("/simple/")]) == 1


async def test_a_module_of_the_sandbox_is_not_installed(index: Index, make: Make) -> None:
    """If the sandbox has the distribution and not the module, there is nothing to add."""
    with pytest.raises(InstallError, match=r"pyzmq 27\.1\.0 is installed, and has no module zmq\.unheard_of"):
        await make().install_module("zmq.unheard_of")
    assert index.requests == []


async def test_trouble_with_the_index_is_no_answer_for_a_module(index: Index, make: Make) -> None:
    """When the index is back, the same module is tried again; a name that doesn't exist is not."""
    index.add("thing")
    installer = make()
    index.failures = 1000
    with pytest.raises(IndexUnreachableError):
        await installer.install_module("thing")
    index.failures = 0
    assert len(await installer.install_module("thing")) == 1
    for _ in range(2):
        with pytest.raises(InstallRefused, match="no distribution called invented"):
            await installer.install_module("invented")
    assert index.requests.count("/simple/invented/") == 1


# -- configuration


def test_uv_is_not_told_what_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that say where packages come from pass; secrets, and what would weaken a check, don't."""
    for name in ("UV_NO_VERIFY_HASHES", "UV_TARGET", "UV_EXCLUDE_NEWER", "UV_OVERRIDE", "OPENAI_API_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_PRIVATE_PASSWORD", "https_proxy", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, "mine")
    passed = environment()
    assert {name for name, value in passed.items() if value == "mine"} >= {
        "UV_DEFAULT_INDEX", "UV_INDEX_PRIVATE_PASSWORD", "https_proxy", "SSL_CERT_FILE",
    }  # fmt: skip
    weak = {"UV_NO_VERIFY_HASHES", "UV_TARGET", "UV_EXCLUDE_NEWER", "UV_OVERRIDE", "OPENAI_API_KEY", "PYTHONPATH"}
    assert weak & set(passed) == set()


async def test_a_projects_configuration_is_not_read(index: Index, make: Make, tmp_path: Path) -> None:
    """A `uv.toml` or `pyproject.toml` above the session's folder may be a stranger's."""
    (tmp_path / "uv.toml").write_text("no-index = true\n")
    (tmp_path / "pyproject.toml").write_text("[tool.uv]\nno-index = true\n")
    (tmp_path / "session").mkdir()
    (tmp_path / "session" / "uv.toml").write_text("no-index = true\n")
    index.add("app")
    assert len(await make(folder=tmp_path / "session" / "deep" / "site").install(["app"])) == 1


def test_credentials_are_not_repeated() -> None:
    """An index's URL may carry them, and what uv says may reach a model and a notebook."""
    assert packages.shorten("error: no\n  http://me:secret@index.test/x") == "no http://index.test/x"


def test_pins_are_read_for_the_target(make: Make) -> None:
    """Hashes, comments and continued lines are skipped, and so are pins for another platform."""
    assert read_pins(make().target) == {"numpy": "2.3.5", "pyzmq": "27.1.0"}


@pytest.mark.parametrize("line", ["numpy>=2", "./numpy", "numpy @ https://evil.test/numpy.whl"])
def test_pins_that_are_not_exact_are_an_error(line: str, make: Make) -> None:
    """A list that can't be trusted as the whole truth isn't used."""
    with pytest.raises(EnvironmentMissing, match="not a list of exact versions"):
        make(pins=line)


async def test_a_missing_uv_is_an_error_with_its_mend(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package and without a binary on PATH."""
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", "/nowhere")
    await refused(make(), "app", match="pip install uv")


# -- a whole requirements file


def test_fill_makes_a_folder_from_hashed_requirements(index: Index, tmp_path: Path) -> None:
    """All of the file, readable for everybody, and compiled if that is asked for."""
    pins = tmp_path / "requirements.txt"
    pins.write_text("".join(f"{name}==1.0 --hash=sha256:{index.add(name, days=0)}\n" for name in ("one", "two")))
    folder = tmp_path / "made" / "env"
    before = os.umask(0o077)
    try:
        fill(folder, pins=pins, python=PYTHON, platform=PLATFORM, compile_bytecode=True)
    finally:
        os.umask(before)
    assert sorted(path.name for path in folder.glob("*/__init__.py")) == ["__init__.py", "__init__.py"]
    assert len(list(folder.rglob("*.pyc"))) == 2
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in [folder, *folder.rglob("*")])
    assert [path.name for path in folder.parent.iterdir()] == ["env"]
    with pytest.raises(EnvironmentMissing, match="is not empty"):
        fill(folder, pins=pins, python=PYTHON, platform=PLATFORM)


@pytest.mark.parametrize("line", ["one==1.0 --hash=sha256:" + "0" * 64, "one==1.0"])
def test_fill_accepts_only_what_the_hashes_say(line: str, index: Index, tmp_path: Path) -> None:
    """A wrong hash or none: no folder."""
    index.add("one")
    pins = tmp_path / "requirements.txt"
    pins.write_text(f"{line}\n")
    with pytest.raises(EnvironmentMissing, match=r"can't be installed: .*[Hh]ash"):
        fill(tmp_path / "made" / "env", pins=pins, python=PYTHON, platform=PLATFORM)
    assert list((tmp_path / "made").iterdir()) == []


# -- the real index


async def test_the_real_index_serves_a_small_package(make: Make, site: Path) -> None:
    """With the person's own configuration: resolved, old enough, fetched, importable."""
    (added,) = await make().install_module("humanize")
    assert (added.name, added.requested, len(added.sha256)) == ("humanize", True, 64)
    code = f"import sys; sys.path.append({str(site)!r}); import humanize; print(humanize.intcomma(12345))"
    assert python(code) == "12,345\n"
