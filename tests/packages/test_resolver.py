"""What uv is asked, and what its answers mean: with a real uv and an index that can be in trouble."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest
from packages.index import PLATFORM, PYTHON, Index, Make, children, refused

from nbagent.core.errors import InstallError, InstallRefused
from nbagent.core.events import Package
from nbagent.packages import pip_settings, uv
from nbagent.packages.pinned import fill
from nbagent.packages.uv import IndexUnreachableError

pytestmark = pytest.mark.usefixtures("own_uv")


# -- what fits


async def test_extras_and_versions_are_honoured(index: Index, make: Make) -> None:
    """`name[extra]<version` takes the highest version that fits, and what the extra requires."""
    for version in ("1.0", "2.0", "3.0"):
        index.add("app", version)
    added = await make().install(["app<3,>=1"])
    assert [(package.name, package.version) for package in added] == [("app", "2.0")]


async def test_dependencies_that_the_sandbox_has_are_not_installed_again(index: Index, make: Make) -> None:
    """Resolution takes the sandbox's version, however young, and leaves it where it is."""
    index.add("numpy", "2.3.5", days=0)
    index.add("numpy", "2.4.0")
    index.add("app", requires=("numpy>=2",))
    assert [package.name for package in await make().install(["app"])] == ["app"]


async def test_a_conflict_with_the_sandbox_is_an_error(index: Index, make: Make) -> None:
    """What the kernel's environment has stays, whoever needs another version."""
    index.add("numpy", "2.3.5")
    index.add("numpy", "3.0")
    index.add("app", requires=("numpy>=3",))
    await refused(make(), "app", match="No versions fit together.*numpy")
    await refused(make(), "numpy==3.0", match=r"numpy 2\.3\.5 is part of the sandbox")


@pytest.mark.parametrize("version", ["1+" + "a" * 200_000, "1" + ".1" * 20_000, "1+" + "a.b." * 20_000 + "c"])
async def test_a_word_of_a_packages_metadata_is_read_in_a_time_by_its_length(
    version: str, index: Index, make: Make
) -> None:
    """The error of uv has it whole: patterns on 40 KB of it held whoever installs up for six seconds."""
    index.add("numpy", "2.3.5")
    index.add("app", requires=(f"numpy=={version}",))
    begun = time.process_time()
    await refused(make(), "app", match=r"numpy==1.*…")
    assert time.process_time() - begun < 1


async def test_a_wheel_in_the_cache_is_not_fetched_again(index: Index, make: Make, tmp_path: Path) -> None:
    """Another session's install of the same wheel asks the index which one it is, and nothing more."""
    index.add("app")
    await make().install(["app"])
    index.requests.clear()
    await make(folder=tmp_path / "other" / "site").install(["app"])
    assert [path for path in index.requests if path.startswith("/files/")] == []
    assert index.requests, "a cached resolution could hide that the index has withdrawn a release"


@pytest.mark.parametrize(
    ("has", "asked"),
    [("2_41", "2_40"), ("2_99", "2_40"), ("2_40", "2_40"), ("2_36", "2_36"), ("2_30", "2_28"), ("2_16", "2_16")],
)
def test_uv_is_asked_for_a_glibc_that_it_knows(has: str, asked: str) -> None:
    """A machine newer than uv, or one in a gap of uv's list, gets the wheels of the newest older glibc in it."""
    listed = ["2014", "_2_17", "_2_28", "_2_31", "_2_36", "_2_40"]
    known = frozenset({*(f"x86_64-manylinux{each}" for each in listed), "aarch64-manylinux_2_41", "linux"})
    assert uv.newest_known(f"x86_64-manylinux_{has}", known) == f"x86_64-manylinux_{asked}"


@pytest.mark.parametrize("has", ["2_41", "2_99", "2_29", "2_36"])
async def test_packages_come_whatever_glibc_there_is(has: str, index: Index, make: Make, tmp_path: Path) -> None:
    """The installed uv takes what it is asked for: in a session, and for a kernel's environment or image."""
    platform = f"x86_64-manylinux_{has}"
    digest = index.add("app", files={"app/__init__.py": "", "app/tests/test_it.py": "", "app/tests/__init__.py": ""})
    assert [package.name for package in await make(platform=platform).install(["app"])] == ["app"]
    (tmp_path / "all.txt").write_text(f"app==1.0 --hash=sha256:{digest}\n")
    fill(tmp_path / "all", pins=tmp_path / "all.txt", python=PYTHON, platform=platform)
    # Of these, the files are those of uv's cache, and test suites are left out.
    assert (tmp_path / "all" / "app" / "__init__.py").stat().st_nlink == 2
    assert not (tmp_path / "all" / "app" / "tests").exists()


# -- the minimum age


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


@pytest.mark.parametrize("where", ["{0}/files/x-1.0-py3-none-any.whl", "git+{0}/x.git", "file:///etc/hostname"])
async def test_an_address_in_a_dependency_is_not_followed(index: Index, make: Make, where: str) -> None:
    """Nor in a dependency of a dependency: who publishes a package must not say where this machine calls."""
    elsewhere = Index()
    try:
        elsewhere.add("x")
        index.add("deep", requires=(f"x @ {where.format(elsewhere.url)}",))
        index.add("app", requires=("deep",))
        for name in ("deep", "app"):
            await refused(make(), name, match="address of its own|invalid metadata")
        assert elsewhere.requests == []
    finally:
        elsewhere.close()


async def test_source_distributions_are_not_built(index: Index, make: Make) -> None:
    """Building runs a stranger's code on the host; the file isn't even fetched."""
    index.add("app", source=True)
    assert isinstance(await refused(make(), "app", match="app comes as source only"), InstallRefused)
    assert [path for path in index.requests if path.startswith("/files/")] == []


async def test_a_version_that_does_not_exist_is_an_error(index: Index, make: Make) -> None:
    index.add("app")
    await refused(make(), "app>=9", match=r"No versions fit together.*app>=9")


async def test_a_wheel_with_another_hash_is_refused(index: Index, make: Make) -> None:
    """What was announced and what came differ."""
    index.add("app", sha256="0" * 64)
    assert isinstance(await refused(make(), "app", match="not the one that the index announced"), InstallRefused)


@pytest.mark.parametrize("cut", [20, 200])
async def test_a_truncated_wheel_is_an_error(cut: int, index: Index, make: Make) -> None:
    index.add("app", files={"app/__init__.py": "x = 1\n" * 50}, cut=cut)
    await refused(make(), "app", match=r"can't be (fetched|read)|not the one")


# -- an index in trouble


async def test_a_busy_index_is_asked_again(index: Index, make: Make) -> None:
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
    monkeypatch.setattr(uv, "RESOLVE_SECONDS", 1.0)
    index.slow = True
    assert isinstance(await refused(make(), "app", match="did not answer in time"), IndexUnreachableError)
    assert children() == []


# -- running uv


def test_uv_is_not_told_what_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that say where packages come from pass; secrets, and what would weaken a check, don't."""
    for name in ("UV_NO_VERIFY_HASHES", "UV_TARGET", "UV_EXCLUDE_NEWER", "UV_OVERRIDE", "OPENAI_API_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_PRIVATE_PASSWORD", "https_proxy", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.delenv("PIP_CERT", raising=False)
    passed = uv.environment()
    assert {name for name, value in passed.items() if value == "mine"} >= {
        "UV_DEFAULT_INDEX", "UV_INDEX_PRIVATE_PASSWORD", "https_proxy", "SSL_CERT_FILE",
    }  # fmt: skip
    weak = {"UV_NO_VERIFY_HASHES", "UV_TARGET", "UV_EXCLUDE_NEWER", "UV_OVERRIDE", "OPENAI_API_KEY", "PYTHONPATH"}
    assert weak & set(passed) == set()


async def test_pips_settings_hold_for_uv(
    index: Index, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has told pip alone of a mirror gets packages from it; a folder of wheels that is gone is left out."""
    index.add("app")
    monkeypatch.delenv("UV_DEFAULT_INDEX")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "pip.conf").write_text(
        f"[global]\nindex_url = http://127.0.0.1:1/simple\nfind-links = {tmp_path}/gone\n"
        f"[install]\nindex-url = {index.url}/simple\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert [each.name for each in await make().install(["app"])] == ["app"]


async def test_a_name_of_a_private_index_is_taken_from_there_only(
    index: Index, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other release or file of it is installed; what the kernel has, and how old a file is, may stand elsewhere."""
    with contextlib.closing(Index()) as private:
        private.add("ours", "1.0")
        newer = index.add("ours", "99.0")
        private.add("numpy", "1.0")
        index.add("numpy", "2.3.5")
        private.add("app", requires=("numpy>=2",))
        monkeypatch.delenv("UV_DEFAULT_INDEX")
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/simple")
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{private.url}/simple")
        private.add("undated", days=None)
        index.add("undated")
        index.add("undated", "2.0")
        private.add("mine", days=None)
        index.add("mine", files={"mine/__init__.py": "from_elsewhere = True"})
        await refused(make(), "ours>=2", match="ours")
        await refused(make(), "mine", match="doesn't say when")
        assert [each.version for each in await make().install(["undated"])] == ["1.0"]
        private.add("locked", days=None)
        await make().install_locked([Package("locked", "1.0", index.add("locked"), requested=True)])
        assert [each.name for each in await make().install(["app"])] == ["app"]
        assert [each.version for each in await make().install(["ours"])] == ["1.0"]
        pins = tmp_path / "pins.txt"
        pins.write_text(f"ours==99.0 --hash=sha256:{newer}\n")
        fill(tmp_path / "made", pins=pins, python=PYTHON, platform=PLATFORM)
        assert (tmp_path / "made" / "ours-99.0.dist-info").is_dir()


def test_what_uv_is_told_goes_before_what_pip_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates, proxies and places of pip's are uv's too, unless the person has told uv itself."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", "/etc")
    (tmp_path / "my wheels").mkdir()
    wheels = f"file://{tmp_path}/my%20wheels"
    pip = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_CERT": "~/ours.pem",
        "PIP_PROXY": "http://proxy.test:3128",
        "PIP_TRUSTED_HOST": "a.test b.test",
        "PIP_INDEX_URL": "https://mirror.test/simple",
        "PIP_EXTRA_INDEX_URL": "https://more.test/simple",
        "PIP_FIND_LINKS": f"{tmp_path} {tmp_path}/gone ~ {wheels} https://wheels.test/",
    }
    found = {
        "SSL_CERT_FILE": "/etc/ours.pem",
        "ALL_PROXY": "http://proxy.test:3128",
        "UV_INSECURE_HOST": "a.test b.test",
        "UV_DEFAULT_INDEX": "https://mirror.test/simple",
        "UV_EXTRA_INDEX_URL": "https://more.test/simple",
        "UV_FIND_LINKS": f"{tmp_path},/etc,{wheels},https://wheels.test/",
    }
    assert pip_settings.for_uv(pip) == found
    own = {"SSL_CERT_DIR": "/etc/certs", "https_proxy": "http://other.test", "UV_INDEX_URL": "https://own.test/simple"}
    assert pip_settings.for_uv(pip | own) == {"UV_INSECURE_HOST": "a.test b.test"}
    # Certificates of every program, which Conda names by itself, are not those that pip was told of.
    everybody, ours = {"SSL_CERT_FILE": "/etc/all.pem", "PIP_CONFIG_FILE": os.devnull}, tmp_path / "ours.pem"
    assert pip_settings.for_uv(everybody | {"PIP_CERT": str(ours)}) == {}
    ours.touch()
    assert pip_settings.for_uv(everybody | {"PIP_CERT": str(ours)}) == {"SSL_CERT_FILE": str(ours)}
    assert pip_settings.for_uv(everybody | {"REQUESTS_CA_BUNDLE": str(ours)}) == {}
    (tmp_path / "pip.conf").write_text(f"[global]\ncert = {ours}\n")
    assert pip_settings.for_uv(everybody | {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}) == {}
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text('[[index]]\nurl = "https://own.test/simple"\ndefault = true\n')
    assert not {name for name in pip_settings.for_uv(pip) if "INDEX" in name or "LINKS" in name}
    monkeypatch.setattr(uv, "environment", dict)
    assert not uv.has_further_indexes()
    (tmp_path / "uv" / "uv.toml").write_text('[[index]]\nurl = "https://own.test/simple"\n')
    assert uv.has_further_indexes()
    assert pip_settings.for_uv({"PIP_CONFIG_FILE": os.devnull, "REQUESTS_CA_BUNDLE": "/etc/ours.pem"}) == {
        "SSL_CERT_FILE": "/etc/ours.pem"
    }


def test_a_failure_of_the_network_has_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates, passwords and the way to the index are told apart; what has another cause has none of these."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("SSL_CERT_FILE", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    assert "SSL_CERT_FILE" in uv.way_out("client error (Connect) cause: invalid peer certificate: UnknownIssuer")
    assert "netrc" in uv.way_out("HTTP status client error (401 Unauthorized) for url")
    assert "HTTPS_PROXY" in uv.way_out("error sending request for url (https://pypi.test/simple/six/)")
    assert "Mend the proxy" in uv.way_out("error sending request cause: client error (Connect) cause: tunnel error: …")
    assert uv.way_out("Because there is no version of six==99 …") == ""
    assert uv.shorten("error: no way\nhint: Consider a flag `--of-uv`") == "no way."
    monkeypatch.setenv("SSL_CERT_FILE", "/nope.pem")
    assert "There is no file /nope.pem" in uv.way_out("cause: invalid peer certificate: UnknownIssuer")


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
    assert uv.shorten("error: no\n  http://me:secret@index.test/x") == "no http://index.test/x."
    assert uv.shorten("error: no\n  http://me:se@cret@index.test/x") == "no http://index.test/x."


async def test_a_missing_uv_is_an_error_with_its_mend(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", "/nowhere")
    await refused(make(), "app", match="pip install uv")


@pytest.mark.parametrize("said", ["uv 0.11.14 (x86_64)", "uv 0.10", "", "something else 9.9"])
async def test_a_uv_that_writes_outside_of_its_folder_is_refused(
    said: str, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever had an old one keeps it, and before 0.11.15 a wheel's scripts landed wherever their names led."""
    program = tmp_path / "uv"
    program.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    await refused(make(), "app", match=r"outside of their folder.*pip install --upgrade uv")


async def test_a_uv_that_cannot_be_run_is_an_error_with_its_mend(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one that was made for another processor."""
    (tmp_path / "uv").write_text("#!/nowhere/sh")
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    await refused(make(), "app", match=r"can't be run.*pip install uv")


async def test_certificates_that_are_not_there_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others would be trusted in their place, without a word."""
    monkeypatch.setenv("PIP_CERT", "~/nope.pem")
    with pytest.raises(InstallError, match=r"There is no file ~/nope\.pem, which PIP_CERT names\."):
        await uv.run(["--version"], work=tmp_path, deadline=60)
