"""Questions on many files: what a model is sent first, and what it can ask of the data, with a real kernel."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.stub import Provider, Say, python

from nbagent import Session


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    """A provider that `openai:…` reaches, and no other key or server."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_API_BASE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NBAGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))
    with Provider() as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        yield stub  # type: ignore[misc]  # `with` gives the base


def tokens(request: dict[str, Any]) -> int:
    """About how many tokens a request has: a long word or number has several."""
    text = "\n".join([*(str(each["content"]) for each in request["messages"]), json.dumps(request.get("tools", []))])
    return len(re.findall(r" ?[A-Za-zäöüß]{1,9}|\d{1,3}|[^\sA-Za-z\d]{1,3}|\n+", text))


def names(request: dict[str, Any]) -> list[str]:
    """The tools that a request offers."""
    return [each["function"]["name"] for each in request.get("tools", [])]


async def test_the_first_request_on_one_table_is_small(stub: Provider, tmp_path: Path) -> None:
    """It has the table whole, and neither the tools for scripts nor those for many files."""
    rows = "\n".join(f"{n},Torgersen,{n / 7:.1f},{3700 + n},yes,2026-01-{1 + n % 28:02}" for n in range(300))
    (tmp_path / "penguins.csv").write_text(f"id,island,bill length (mm),mass,seen,day\n{rows}\n")
    async with Session(model="openai:gpt-4.1", data=[tmp_path / "penguins.csv"], engine="bubblewrap", mcp=False) as s:
        stub.say(Say(text="Done."), Say(text="Done."))
        await s.ask("Which island is it?")
        await s.ask("Now write a script for it.")
    first, second = stub.requests
    assert names(first) == ["python", "install"]
    assert tokens(first) <= 2_000
    assert '"bill length (mm)": Float64' in first["messages"][0]["content"]
    assert "sandbox_exec" in names(second)


async def test_a_folder_of_many_files_can_be_asked_about(stub: Provider, tmp_path: Path) -> None:
    """Every file is in the first request; `describe` and `find` tell of the rest without a cell."""
    folder = tmp_path / "lake"
    folder.mkdir()
    for n in range(22):
        (folder / f"water-{2002 + n}.csv").write_text("Beach,Level\n" + "North,1\nSouth,null\n" * 5)
    own = [f"{'abcdefghij'[n % 10]}{'klmnopqrstuvw'[n // 10]}-survey.csv" for n in range(107)]
    for n, name in enumerate(own):
        (folder / name).write_text(f"{name[:2]} id,{name[:2]} value\n" + "".join(f"k{n}-{i},{i}\n" for i in range(60)))
    (folder / "README.md").write_text("Level is in CFU per 100 ml. " * 40)
    async with Session(model="openai:gpt-4.1", data=[folder], engine="bubblewrap", mcp=False) as session:
        stub.say(
            Say(calls=(("describe", json.dumps({"file": "ck-survey"})),)),
            Say(calls=(("find", json.dumps({"text": "k17-33"})),)),
            Say(calls=(("describe", json.dumps({"file": "nowhere.csv"})),)),
            Say(text="Done."),
        )
        answer = await session.ask("How high is the level at North?")
    assert (answer.text, answer.cells) == ("Done.", [])
    first = stub.requests[0]
    system = first["messages"][0]["content"]
    assert names(first) == ["python", "install", "describe", "find"]
    assert tokens(first) <= 4_500
    assert "; .csv: " in system, "the ending is told once for all"
    assert [name for name in own if not re.search(rf"\b{name.removesuffix('.csv')}\b", system)] == []
    assert '"water-{2002…2023}.csv" ×22' in system
    assert "CFU per 100 ml" in system
    assert '"Level": Int64, "1" ×110, missing "null" ×110' in system
    told, hit, missed = (request["messages"][-1]["content"] for request in stub.requests[1:])
    assert '"ck id": String, e.g. "k2-0", "k2-1", all different' in told
    assert 'hl-survey.csv": 1 times, first in line 35: "k17-33,33"' in hit
    assert 'No file\'s path has "nowhere.csv" in it.' in missed


async def test_an_answer_over_several_files_is_computed_a_second_time(stub: Provider, tmp_path: Path) -> None:
    """The numbers decide: found again, the answer stands without another request; if not, the model has a last word."""
    (tmp_path / "shops.csv").write_text("shop,city\nA,Ulm\nB,Bonn\n")
    (tmp_path / "sales.csv").write_text("shop,sales,year\nA,110,2023\nB,210,2023\na,115,2023\n")
    first = python("import polars as pl\nshops = pl.read_csv('shops.csv')\nsales = pl.read_csv('sales.csv')\n"
                   "print(sales.join(shops, on='shop').sort('city'))")  # fmt: skip
    again = "import csv\nprint(sum(int(r['sales']) for r in csv.DictReader(open('sales.csv')) if {}))"
    options: Any = {"model": "openai:gpt-4.1", "engine": "bubblewrap", "mcp": False, "budget": "5steps"}
    async with Session(data=[tmp_path / "shops.csv", tmp_path / "sales.csv"], **options) as session:
        stub.say(Say(calls=(first,)), Say(text="Bonn sold 210 in 2023."))
        stub.say(Say(calls=(python(again.format("r['shop'] == 'B'")),)))
        same = await session.ask("What did Bonn sell?")
        stub.say(Say(calls=(first,)), Say(text="Ulm sold 110."))
        stub.say(Say(calls=(python(again.format("r['shop'].upper() == 'A'") + "\nsales.height"),)))
        stub.say(Say(calls=(python("print(110, 225)"),)), Say(text="Ulm sold 225."))
        other = await session.ask("And Ulm?")
        stub.say(Say(calls=(first,)), Say(text="Bonn sold 210."), *[Say(calls=(python("1 / 0"),))] * 3)
        cut = await session.ask("And Bonn?")
        stub.say(Say(calls=(python("print(len(open('shops.csv').read()) * 3)"),)), Say(text="It is 69."))
        one = await session.ask("How long is the file, three times?")
        stub.say(Say(calls=(python("print(shops.height * 333)"),)), Say(text="It is 666."), Say(text="It is 666."))
        reused = await session.ask("And its rows, 333 times?")
        stub.say(Say(calls=(first,)), Say(text="Bonn sold 210."), Say(status=418))
        failed = await session.ask("And Bonn?")
    assert len(stub.requests) == 3 + 5 + 5 + 2 + 3 + 3
    assert failed.check is not None
    assert (failed.text, failed.success, failed.check.cells) == ("Bonn sold 210.", True, [])
    assert "compute 210 a second time, with the names" in stub.requests[2]["messages"][-1]["content"]
    assert (same.success, same.claims[0].cell, same.claims[0].again) == (True, 1, 2)
    assert same.check is not None
    assert same.check.told.startswith("Checked: cell 2 found 210 again. This took 1 more")
    assert same.check.usage.calls == 1
    assert same.usage.calls == 3
    assert other.check is not None
    assert other.text == "Ulm sold 225."
    assert (other.check.new, other.check.changed, other.check.reused) == (["225"], True, ["sales"])
    assert cut.check is not None
    assert (cut.text, cut.check.alone) == ("Bonn sold 210.", ["210"])
    assert "did not find 210." in cut.check.told
    assert (one.text, one.check) == ("It is 69.", None)
    assert reused.check is not None
