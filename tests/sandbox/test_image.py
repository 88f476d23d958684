"""The Docker image of a kernel, with the real daemon; only the wheels are left out where that fails sooner."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from nbagent.core.errors import EnvironmentMissing
from nbagent.packages import pinned
from nbagent.sandbox import environment
from nbagent.sandbox.engines import image

EMPTY = "nbagent-test-empty:1"
pytestmark = pytest.mark.needs("docker")


@pytest.fixture
def client() -> Iterator[docker.APIClient]:
    """The daemon."""
    made = docker.APIClient(timeout=60)
    yield made
    made.close()


@pytest.fixture
def empty(client: docker.APIClient) -> Iterator[str]:
    """An image without anything in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("nothing"), io.BytesIO())
    repository, tag = EMPTY.split(":")
    client.import_image_from_data(packed.getvalue(), repository=repository, tag=tag)
    yield EMPTY
    client.remove_image(EMPTY, force=True)


@pytest.fixture
def base(client: docker.APIClient) -> str:
    """The image that the kernel's image was built from."""
    tags = [tag for each in client.images(name="nbagent-base") for tag in each["RepoTags"]]
    assert tags, "no base image is here; run: .ci/base-image"
    return str(tags[0])


def test_it_is_there(client: docker.APIClient) -> None:
    """The image of these requirements says which Python it has and what fits it, and doesn't run as root."""
    found = client.inspect_image(image.default_tag())["Config"]
    assert found["Labels"]["nbagent.python"].startswith("3.")
    assert "manylinux" in found["Labels"]["nbagent.platform"]
    assert found["User"] == "sandbox"


def test_its_tag_follows_what_it_is_made_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Other requirements or another Dockerfile are another image."""
    monkeypatch.setattr(environment, "kernels", lambda: tmp_path)
    tags = set()
    for dockerfile, requirements in (("a", "b"), ("a", "c"), ("d", "b")):
        (tmp_path / "Dockerfile").write_text(dockerfile)
        (tmp_path / "requirements.txt").write_text(requirements)
        tags.add(image.default_tag())
    assert len(tags) == 3


async def test_a_base_that_can_t_be_had(client: docker.APIClient) -> None:
    """A name that neither the daemon nor a registry knows is an error with the mend."""
    before = len(client.containers(all=True))
    with pytest.raises(EnvironmentMissing, match="nbagent-nothing") as caught:
        await image.build(base="localhost:9/nbagent-nothing:1", say=lambda _: None)
    assert "--base" in caught.value.mend
    assert len(client.containers(all=True)) <= before


async def test_a_base_without_python(empty: str, leftovers: Callable[[], list[str]]) -> None:
    """A base that can't run Python is refused before anything is fetched, and no container of it stays."""
    before = leftovers()
    with pytest.raises(EnvironmentMissing, match=empty):
        await image.build(base=empty, say=lambda _: None)
    assert leftovers() == before


async def test_a_build_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, client: docker.APIClient, base: str) -> None:
    """The daemon's reason is the error; no image gets the name, and no container stays."""

    def fill(site: Path, **_: Any) -> None:
        (site / "empty").mkdir()

    monkeypatch.setattr(pinned, "fill", fill)
    before = {each["Id"] for each in client.containers(all=True)}
    said: list[str] = []
    with pytest.raises(EnvironmentMissing, match="could not be built"):
        await image.build(base=base, tag="nbagent-test-fails:1", say=said.append)
    assert said[-1] == "Building …"
    assert not client.images(name="nbagent-test-fails")
    assert not [
        each for each in client.containers(all=True) if each["Id"] not in before and "compileall" in each["Command"]
    ]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("python:3.13", ("python", "3.13")),
        ("python", ("python", "latest")),
        ("host:5000/python", ("host:5000/python", "latest")),
        ("host:5000/python:3", ("host:5000/python", "3")),
    ],
)
def test_names_are_split(name: str, parts: tuple[str, str]) -> None:
    """A port is not a tag."""
    assert image._name_and_tag(name) == parts


def test_files_belong_to_root_and_are_readable() -> None:
    """Whatever the umask was here, the sandbox's user reads the image's files and owns none."""
    entry = tarfile.TarInfo("x")
    entry.mode, entry.uid, entry.gid, entry.uname = 0o600, 1000, 1000, "me"
    entry = image._of_root(entry)
    assert (entry.mode, entry.uid, entry.gid, entry.uname) == (0o644, 0, 0, "root")


@pytest.fixture
def changed(client: docker.APIClient, base: str) -> Iterator[Callable[..., str]]:
    """Makes an image of the base, with instructions of a Dockerfile."""
    tag = "nbagent-test-changed:1"

    def change(*instructions: str) -> str:
        made = client.create_container(base, command=["true"])["Id"]
        client.commit(made, *tag.split(":"), changes=list(instructions))
        client.remove_container(made, v=True)
        return tag

    yield change
    client.remove_image(tag, force=True)


def volumes(client: docker.APIClient) -> set[str]:
    """The names of the daemon's volumes."""
    return {each["Name"] for each in client.volumes()["Volumes"] or ()}


ASKED = """\
import json, platform, resource, threading, time
try:
    {hostile}
    said = "none"
except Exception as error:
    said = type(error).__name__
print(json.dumps([platform.python_version(), "x86_64", "glibc", "2.36", said]))
"""
THREADS = "[threading.Thread(target=time.sleep, args=[3], daemon=True).start() for _ in range(200)]"


@pytest.mark.parametrize(
    ("hostile", "said"),
    [("open('/var/tmp/a', 'w')", "OSError"), ("open('/usr/a', 'w')", "OSError"), (THREADS, "RuntimeError")],
)
def test_a_base_is_asked_in_bounds(
    client: docker.APIClient, changed: Callable[..., str], monkeypatch: pytest.MonkeyPatch, hostile: str, said: str
) -> None:
    """It may be anybody's: it takes neither the disk nor the processes of the machine, and leaves nothing behind."""
    before, tag = volumes(client), changed('ENTRYPOINT ["sleep", "999"]', "VOLUME /var/tmp", "USER root")
    assert image._ask(client, tag)[0].startswith("3.")
    monkeypatch.setattr(image, "ASK", ASKED.format(hostile=hostile))
    assert image._ask(client, tag)[2] == said
    assert volumes(client) <= before


@pytest.mark.parametrize(
    ("hostile", "told"), [("time.sleep(100)", "did not say in 3 s"), ("b'x' * 10**9", "no working python3")]
)
def test_a_base_that_takes_too_much_is_ended(
    client: docker.APIClient, base: str, monkeypatch: pytest.MonkeyPatch, hostile: str, told: str
) -> None:
    """Time and memory."""
    monkeypatch.setattr(image, "ASK", ASKED.format(hostile=hostile))
    monkeypatch.setattr(image, "ASK_SECONDS", 3)
    with pytest.raises(EnvironmentMissing, match=told):
        image._ask(client, base)


@pytest.mark.parametrize("version", ["3.x", "3.13\\u001b[2J"])
def test_what_a_base_says_is_a_version(
    client: docker.APIClient, base: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else becomes part of a path, of uv's arguments or of what a terminal shows."""
    said = f'["{version}", "x86_64", "glibc", "2.36", "/usr"]'
    monkeypatch.setattr(image, "ASK", f"print({said!r})")
    with pytest.raises(EnvironmentMissing, match="no working python3"):
        image._ask(client, base)


def test_a_base_with_another_c_library_is_told_as_such(
    client: docker.APIClient, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of Alpine, of which Python knows neither name nor version."""
    said = '["3.13.1", "x86_64", "", "", "/usr"]'
    monkeypatch.setattr(image, "ASK", f"print({said!r})")
    with pytest.raises(EnvironmentMissing, match=r"has Python 3\.13\.1 on another C library"):
        image._ask(client, base)


def test_a_base_that_gives_the_daemon_orders_is_refused(client: docker.APIClient, changed: Callable[..., str]) -> None:
    """`ONBUILD ADD http://…` would have the daemon fetch what only this machine reaches, and put it in the image."""
    with pytest.raises(EnvironmentMissing, match="ONBUILD"):
        image._ask(client, changed("ONBUILD ADD http://169.254.169.254/latest /stolen"))
