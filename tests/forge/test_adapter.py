"""Functions of packages as drafts of tools."""

from __future__ import annotations

import pytest

from nbagent.core.errors import ForgeError
from nbagent.forge import tool
from nbagent.forge.adapter import drafts_of, tool_name


def test_drafts() -> None:
    """One a function, each once, and each as a draft must be."""
    one, two = drafts_of("humanize>=4", ["humanize.naturalsize", "humanize.time.naturalday", "humanize.naturalsize"])
    assert (one.name, one.adapts) == ("humanize_naturalsize", "humanize.naturalsize")
    assert one.dependencies == ("humanize>=4",)
    assert one.description == "humanize.naturalsize of the package humanize."
    assert "from humanize import naturalsize as wrapped" in one.code
    assert (two.name, two.adapts) == ("humanize_naturalday", "humanize.time.naturalday")
    assert "from humanize.time import naturalday as wrapped" in two.code
    for each in (one, two):
        tool.check(each)


def test_names() -> None:
    """By the package and the function, as tools are named."""
    assert tool_name("bs4.BeautifulSoup") == "bs4_beautifulsoup"
    assert tool_name("a.b._private__name") == "a_private_name"


@pytest.mark.parametrize(
    ("requirement", "functions", "told"),
    [
        ("humanize; rm -rf /", ["humanize.naturalsize"], "is not a plain package name"),
        ("humanize", [], "wraps 1 to 10 functions"),
        ("humanize", [f"humanize.f{number}" for number in range(11)], "wraps 1 to 10 functions"),
        ("humanize", ["naturalsize"], "names no function"),
        ("humanize", ["humanize.naturalsize\nimport os"], "names no function"),
        ("humanize", ["humanize.x as y; import os"], "names no function"),
        ("humanize", ["humanize.é"], "names no function"),
    ],
)
def test_what_is_refused(requirement: str, functions: list[str], told: str) -> None:
    """Whatever would become more than a name in the code that is written."""
    with pytest.raises(ForgeError, match=told):
        drafts_of(requirement, functions)


def test_keywords_are_found_when_the_draft_is_checked() -> None:
    """They are names by their form, and no Python."""
    (one,) = drafts_of("humanize", ["humanize.class"])
    with pytest.raises(ForgeError, match="The code can't be read"):
        tool.check(one)
