"""The form of a request, and the list of what the sandbox has."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.index import Index, Make, refused

from nbagent.core.errors import EnvironmentMissing, InstallRefused
from nbagent.packages.requirements import parse, read_pins, script_block, script_requirements

pytestmark = pytest.mark.usefixtures("own_uv")

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


def test_pins_are_read_for_the_target(make: Make) -> None:
    """Hashes, comments and continued lines are skipped, and so are pins for another platform."""
    assert read_pins(make().target) == {"numpy": "2.3.5", "pyzmq": "27.1.0"}


@pytest.mark.parametrize("line", ["numpy>=2", "./numpy", "numpy @ https://evil.test/numpy.whl"])
def test_pins_that_are_not_exact_are_an_error(line: str, make: Make) -> None:
    """A list that can't be trusted as the whole truth isn't used."""
    with pytest.raises(EnvironmentMissing, match="not a list of exact versions"):
        make(pins=line)


@pytest.mark.parametrize(
    "lines",
    [
        [".".join(["a"] * 20_000) + " = 1"],
        [f"[{'.'.join(['a'] * 5_000)}]", *(f"b{number} = 1" for number in range(5_000))],
        [f"b{number} = 'c'" for number in range(50_000)],
    ],
)
def test_a_script_block_that_is_made_to_be_slow_is_not_read(lines: list[str]) -> None:
    """Its keys would take memory and time by the square of their length, in the process that has the keys of models."""
    code = "\n".join(["# /// script", *(f"# {line}" for line in lines), "# ///", ""])
    with pytest.raises(ValueError, match="too large"):
        script_block(code)
    assert script_requirements(code) == []


def test_the_largest_script_block_takes_little() -> None:
    """Of memory and of time; that of a notebook with hundreds of packages is read."""
    lines = [f"[{'.'.join(['a'] * 1_900)}]", *(f"b{number}=1" for number in range(2_200))]
    tracemalloc.start()
    try:
        begun = time.process_time()
        assert script_block("\n".join(["# /// script", *(f"# {line}" for line in lines), "# ///", ""]))
        assert time.process_time() - begun < 30
        assert tracemalloc.get_traced_memory()[1] < 50 * 1024 * 1024
    finally:
        tracemalloc.stop()
    pins = [f'#   "package-{number}==1.{number}.0",' for number in range(500)]
    code = "\n".join(["# /// script", "# dependencies = [", *pins, "# ]", "# ///", ""])
    assert len(script_requirements(code)) == 500
