"""One command builds the image or environment of any engine's kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import nbagent


@pytest.mark.parametrize("command", [("build", "bubblewrap"), ("env", "build")])
def test_the_kernel_environment_is_there(command: tuple[str, ...], tmp_path: Path) -> None:
    """It says where that is."""
    done = nbagent(*command, cwd=tmp_path)
    assert done.code == 0, done.err
    folder = Path(done.out.removeprefix("The kernel environment is in ").strip().removesuffix("."))
    assert (folder / "nbagent.json").is_file()


@pytest.mark.needs("docker")
@pytest.mark.parametrize("command", [("build", "docker"), ("image", "build")])
def test_the_options_of_an_image_reach_the_engine(command: tuple[str, ...], tmp_path: Path) -> None:
    """A base without a Python is refused before anything is built."""
    done = nbagent(*command, "--base", "nbagent-no-such-image:x", "--tag", "nbagent-probe:x", cwd=tmp_path)
    assert done.code != 0
    assert "The base image nbagent-no-such-image:x can't be used" in done.err


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("local",), 2, "The local engine needs nothing built."),
        (("bubblewrap", "--base", "x"), 2, "The bubblewrap engine has no images"),
        (("podman",), 2, "There is no engine 'podman'"),
    ],
)
def test_what_an_engine_does_not_make_is_refused(words: tuple[str, ...], code: int, why: str, tmp_path: Path) -> None:
    """Nothing that a person asks for is ignored."""
    done = nbagent("build", *words, cwd=tmp_path)
    assert done.code == code
    assert why in done.err
