"""Columns of secrets in tables."""

from __future__ import annotations

import csv
import io
import json
import time
from itertools import pairwise

import machine
import polars as pl
import pytest

from nbagent.agent.cell_view import cut_middle
from nbagent.safety.columns import secret_columns
from nbagent.sandbox.inside.message_sizes_inside import left_out

FRAME = pl.DataFrame({"name": ["bob", "ann"], "user_password": ["hunter2x", "let me in"], "n": [1, 2]})
PANDAS = """[result]
  name user_password  n
0  bob      hunter2x  1
1  ann     let me in  2

[2 rows x 3 columns]"""
MARKDOWN = (
    "| name | api_key | n |\n|---|---|---|\n| bob | hunter2x | 1 |\n| ann | let me in | 2 |\n\nThat | is it | all"
)
DESCRIBED = (
    '    "name": String, e.g. "bob"\n    "user_password": String, e.g. "hunter2x", "let me in"\n    "n": Int64, e.g. 1'
)
INDEXED = "     user_password  n\nname                  \nbob       hunter2x  1\nann      let me in  2"
QUOTED = io.StringIO()
csv.writer(QUOTED).writerows([["a", "password", "n"], ["bob", "hunter,2x", 1], ["ann", "let me in", 2]])


def hidden(text: str) -> list[str]:
    """What stands where secrets do."""
    return [text[start:end] for start, end in secret_columns(text)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (str(FRAME), ["hunter2x", "let me in"]),
        (FRAME.write_csv(), ["hunter2x", "let me in"]),
        (FRAME.write_csv(separator="\t"), ["hunter2x", "let me in"]),
        (f"[stdout]\n{FRAME.write_csv(separator=';')}\nand, so, on", ["hunter2x", "let me in"]),
        (
            json.dumps({"exit": 0, "out": FRAME.write_csv(), "err": "", "cut": False, "ms": 1}),
            ["hunter2x", "let me in"],
        ),
        (json.dumps({"out": "a,password\nb,let me in\n", "err": "", "files": []}), ["let me in"]),
        (json.dumps({"out": FRAME.write_csv(separator="\t")}), ["hunter2x", "let me in"]),
        (json.dumps({"out": str(FRAME)}, ensure_ascii=False), ["hunter2x", "let me in"]),
        (FRAME.write_csv().replace("\n", "\r\n"), ["hunter2x", "let me in"]),
        (PANDAS, ["hunter2x", "let me in"]),
        (INDEXED, ["hunter2x", "let me in"]),
        (FRAME.glimpse(return_type="string"), ["'hunter2x', 'let me in'"]),
        (str(FRAME["user_password"]), ['"hunter2x"', '"let me in"']),
        (json.dumps({"out": str(FRAME["user_password"])}), [r"\t\"hunter2x\"", r"\t\"let me in\""]),
        (MARKDOWN, ["hunter2x", "let me in"]),
        (DESCRIBED, ['"hunter2x", "let me in"']),
        (QUOTED.getvalue().replace("\r", ""), ['"hunter,2x",1', "let me in"]),
    ],
    ids=[
        "polars",
        "csv",
        "tabs",
        "semicolons",
        "json",
        "json short",
        "json tabs",
        "json polars",
        "crlf",
        "pandas",
        "pandas index",
        "glimpse",
        "series",
        "json series",
        "markdown",
        "described",
        "quoted",
    ],
)
def test_values_are_found_and_nothing_else(text: str, values: list[str]) -> None:
    """In whatever form a table is shown; the header, types, rules and other columns are none."""
    assert hidden(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "name,token,count\nbob,the,3\nann,a,4",
        "The password, the user, and more.\nIt, as said, is here.\nSo, all is well.",
        "password    object\nn            int64\ndtype: object",
        "  password strength\n0  is high, they say",
        "key,value\na,1\nb,2",
        str(pl.DataFrame({"user": ["bob", "ann"], "has_password": [True, False]})),
        "user,has_password\nbob,yes\nann,no",
        '    "has_password": Boolean, e.g. true',
        pl.DataFrame({"has_password": [True]}).glimpse(return_type="string"),
        str(pl.Series("has_password", [True, False])),
        str(pl.Series("words", ["password", "key"])),
        "password, n",
        '    "password": String\n    "n": Int64, e.g. 1',
        str(FRAME.schema),
    ],
)
def test_other_text_has_none(text: str) -> None:
    """Prose, types, a column of words, a header without rows."""
    assert hidden(text) == []


def test_a_table_that_the_kernel_has_cut_goes_on_too() -> None:
    """Where much was printed, the middle of it never left the sandbox."""
    text = f"a,password\nb,hunter2x\nc,hun{left_out(12_345)}2x\nd,let me in\n"
    assert hidden(text) == ["hunter2x", "hun", "2x", "let me in"]


@pytest.mark.parametrize(
    "table",
    [
        "id,password,n\n" + "".join(f"{number},pw-{number}-x,3\n" for number in range(900)),
        "| id | password |\n|---|---|\n" + "".join(f"| {number} | pw-{number}-x |\n" for number in range(900)),
        "      id    password\n"
        + "".join(f"{number:<4} {number:>3} {f'pw-{number}-x':>11}\n" for number in range(900)),
    ],
    ids=["csv", "markdown", "pandas"],
)
@pytest.mark.parametrize("limit", range(2_000, 2_040, 3))
def test_a_table_whose_middle_was_left_out_goes_on(table: str, limit: int) -> None:
    """As the model would see it, wherever the cut falls; also in the JSON of a tool."""
    shown = f"[stdout, truncated]\n{cut_middle(table, limit=limit)[0]}\n[result]\nn is 900"
    for text in (shown, json.dumps({"out": shown}), json.dumps({"out": shown}, ensure_ascii=False)):
        found = list(secret_columns(text))
        assert len(found) > 80
        left = "".join(text[end:start] for (_, end), (start, _) in pairwise([(0, 0), *found, (len(text), 0)]))
        assert "pw-" not in left
        assert "n is 900" in left
        assert "left out here" in left


def test_hostile_tables_take_time_in_proportion() -> None:
    """Headers after headers, and rows without end: eight times as much takes about that, not sixty-four times."""

    def seconds(text: str) -> float:
        taken = []
        for _ in range(3):
            started = time.thread_time()
            list(secret_columns(text))
            taken.append(time.thread_time() - started)
        return min(taken)

    def is_in_proportion(text: str) -> bool:
        return seconds(text) < 30 * max(seconds(text[: len(text) // 8]), machine.pace() / 10)

    for piece in (
        "a,password\n",
        "  x  password\n",
        "| password |\n",
        "password,",
        "a;password\nb;c\n",
        " a secret\n",
        "a,password\n[… 1 of 2 bytes (\n",
        "Series: 'password' [str]\n[\n\t",
        "$ password <str> ",
    ):
        # What else runs on the machine may slow either measurement down, but hardly three times the longer one.
        assert any(is_in_proportion((piece * 40_000)[:200_000]) for _ in range(3)), piece
