"""Which files there are, folder by folder."""

from __future__ import annotations

import re

import pytest
from agent.dataset.profiled import section, table

from nbagent.agent.dataset.folders import tree_lines
from nbagent.agent.dataset.groups import families
from nbagent.kernel.profile import Column, FileProfile, Table


def test_every_file_of_a_large_folder_is_named() -> None:
    """Of 130 files of their own names, each is in the tree, in less than what 4,500 tokens leave for the data."""
    names = [f"{'abcdefghij'[n % 10]}{'klmnopqrstuvw'[n // 10]}-survey.csv" for n in range(130)]
    files = [table(f"/tmp/data/folder/{name}", *(f"{name[:2]} column {at}" for at in range(9))) for name in names]
    told = section(files)
    assert all(name.removesuffix(".csv") in told for name in names)
    assert "130 files" in told
    assert len(told) < 9_000


def test_a_large_folder_is_told_in_few_characters() -> None:
    """Names by their endings, those that begin alike in braces, with the sizes of large ones; the rest is counted."""
    names = [f"{letter * 9}{rest}.csv" for letter in "abcdefghijklmnopqrst" for rest in ("", "_2", "_survey", "-old")]
    files = [table(f"/tmp/data/deep/folder/{name}", name[:2], size=123_456 if "a_2" in name else 10) for name in names]
    files += [table(f"/tmp/data/{n}/a b.csv", f"x{n}") for n in range(90)]
    tree = tree_lines(families(files))
    assert tree[0].endswith(' below "/tmp/data/":')
    assert '"deep/folder/": 124 KB; .csv: aaaaaaaaa{,_2 (123 KB),_survey,-old}' in tree[1]
    assert re.search(r", … and \d+ more$", tree[1])
    assert tree[-1].startswith("… and ")
    assert tree[-1].endswith(" files")


def test_a_folder_of_pages_is_told_by_the_names_of_the_tables_that_they_explain() -> None:
    """With what either of the two has alone; its own names would take as much room again."""
    names = [f"{letter * 12}-table" for letter in "abcdefghijklmnopqrstuvwxyz"]
    files = [table(f"/tmp/data/csv/{name}.csv", name, size=5000) for name in names]
    files += [FileProfile(f"/tmp/data/doc/{name}.html", kind="HTML", size=99) for name in [*names[1:], "index"]]
    tree = tree_lines(families(files))
    assert tree[-1] == (
        f'"/tmp/data/doc/": 2.57 KB; "html": the names of "/tmp/data/csv/" but for "{names[0]}" and "index"'
    )


def test_tables_of_a_database_are_named_with_its_file() -> None:
    """Among many tables they are not told one by one."""
    base = table("/tmp/data/elements.db", "a")
    base.kind, base.tables = (
        "SQLite database",
        [Table(name=each, columns=[Column(each)]) for each in ("series", "groups")],
    )
    tree = tree_lines(families([base, *(table(f"/tmp/data/{n}.csv", f"c{n}") for n in range(9))]))
    assert '"elements.db" 100 B [series, groups]' in tree[1]


@pytest.mark.parametrize("other", ["here/x", "/workspace/x"])
def test_folders_that_have_none_in_common_are_told_whole(other: str) -> None:
    """Relative ones among others, or those that are all below the root only."""
    files = [table(f"/tmp/data/{chr(97 + at)}/a.csv", f"c{at}") for at in range(14)]
    tree = tree_lines(families([*files, table(f"{other}/b.csv", "d")]))
    assert "below" not in tree[0]
