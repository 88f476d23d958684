"""Which paths of a sandbox may be named from outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.core.errors import TransferLimit
from nbagent.kernel.transfer.sandbox_paths import INVALID, SandboxPath, display, file_at, folder_at


class Isolating:
    """An engine that has its folders where they are named."""

    output_folder = "/tmp/output"
    workspace_folder = "/workspace"


class Local:
    """One that has them elsewhere."""

    output_folder = "/scratch/output"
    workspace_folder = "/scratch/workspace"


@pytest.mark.parametrize(
    "path",
    [
        "/home/bad.py", "/etc/passwd", "/tmpfile", "/workspace2/x", "/tmp/../etc/passwd", "/workspace/a/../../etc/x",
        "/tmp", "/workspace", "/tmp/", "/workspace/a/", "/workspace/a/.", "/workspace/.", "x.csv", "", ".", "//", "/",
        "/tmp/a\0b", "tmp/x", "/tmp/..", "\\tmp\\x", "~/x", "file:///tmp/x",
    ],
)  # fmt: skip
def test_a_path_elsewhere_is_refused(path: str) -> None:
    """In the words of the specification, so that a model knows them."""
    with pytest.raises(TransferLimit) as refused:
        file_at(path, Isolating())
    assert str(refused.value) == INVALID == "Invalid path: must be /tmp/* or /workspace/*"


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/tmp/a", ["a"]),
        ("/workspace//a/./b", ["a", "b"]),
        ("/tmp/output/x y", ["output", "x y"]),
        ("/tmp/...", ["..."]),
    ],
)
def test_a_path_below_is_a_place(path: str, parts: list[str]) -> None:
    """Its base is the mounted folder itself, which code can't replace by a link; the rest is walked."""
    place = file_at(path, Isolating())
    assert (place.base, list(place.parts)) == ("/" + path.split("/")[1], parts)


def test_the_unisolated_engine_has_its_folders_elsewhere() -> None:
    """People name files the same way."""
    assert file_at("/workspace/a", Local()) == SandboxPath("/workspace/a", "/scratch/workspace", ("a",))
    assert file_at("/tmp/output/b/c", Local()) == SandboxPath("/tmp/output/b/c", "/scratch/output", ("b", "c"))
    assert folder_at("/tmp/output", Local()) == SandboxPath("/tmp/output", "/scratch/output", ())
    assert file_at("/tmp/outputs", Local()) == SandboxPath("/tmp/outputs", "/tmp", ("outputs",))


@pytest.mark.parametrize("path", ["/tmp/" + "x" * 256, "/tmp/" + "é" * 128, "/workspace" + "/xy" * 1500])
def test_a_path_that_no_system_takes_is_refused_with_the_bound(path: str) -> None:
    with pytest.raises(TransferLimit, match="255 bytes"):
        file_at(path, Isolating())


def test_half_a_surrogate_pair_is_no_name() -> None:
    """Odd bytes of a name are, as Python reads them from a folder."""
    assert file_at("/tmp/\udcff", Isolating()).parts == ("\udcff",)
    with pytest.raises(TransferLimit, match="No file can be called"):
        file_at("/tmp/\ud800", Isolating())


@given(st.text(max_size=80) | st.text("./\0tmpworksace", max_size=30).map(lambda text: f"/tmp/{text}"))
def test_whatever_is_asked_for_stays_below(path: str) -> None:
    """No part leads up, is empty, or holds a slash."""
    try:
        place = file_at(path, Isolating())
    except TransferLimit:
        return
    assert place.base in ("/tmp", "/workspace")
    assert not {"", ".", ".."} & set(place.parts)
    assert not any("/" in part or "\0" in part for part in place.parts)


@given(st.text(max_size=300))
def test_a_path_in_a_sentence_is_short_and_shows_what_it_is(path: str) -> None:
    """It can be sent, and turns no line around."""
    text = display(path)
    assert len(text) <= 120
    assert text.isprintable()
    text.encode()
