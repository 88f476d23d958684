"""What a cell of a kernel that another client started does when a module is missing, and what it asks the host."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import nbagent

MISSING = ModuleNotFoundError("No module named 'm'")


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, with its neighbours as it finds them inside."""
    monkeypatch.syspath_prepend(Path(nbagent.__file__).parent / "sandbox" / "inside")
    monkeypatch.setenv("PLOTLY_RENDERER", "of a client's")
    found = importlib.import_module("client_inside")
    found.Variables = importlib.import_module("magics_inside").Variables  # type: ignore[attr-defined]
    for name in ("client_inside", "file_watch_inside", "magics_inside"):
        del sys.modules[name]
    return found


class Shell:
    """IPython's, with cells that always miss a module."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.user_ns: dict[str, Any] = {}
        self.after: list[Any] = []
        self.kernel = SimpleNamespace(get_parent=dict)
        self.display_pub = SimpleNamespace(clear_output=lambda wait: wait, publish=lambda data: data)
        self.events = SimpleNamespace(register=lambda _, call: self.after.append(call))

    def set_custom_exc(self, handled: Any, handler: Any) -> None:
        self.custom_exceptions, self.handler = handled, handler

    def nbagent_again(self, *_: Any, counted: bool) -> int:
        return int(counted)

    async def run_cell_async(self, *_: Any) -> None:
        self.handler(self, type(MISSING), MISSING, None)

    def showtraceback(self, error: Any, **_: Any) -> None:
        self.shown.append(error[1])


async def test_a_cell_that_misses_more_than_may_be_installed_shows_its_error(
    inside: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, as any other error."""
    shell, asked = Shell(), []
    monkeypatch.setattr(inside, "request_install", lambda *each: asked.append(each) or ("Installed m.", ""))
    inside.install_missing(shell, "")
    await shell.run_cell_async("import m")
    assert (len(asked), shell.shown) == (inside.MAX_INSTALLS, [MISSING])


def test_a_host_that_does_not_count_kills_is_not_asked_for_more(
    inside: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cell ends as others do."""
    shell, used = Shell(), iter(range(9))
    monkeypatch.setattr(inside, "ask", lambda *_: {"error": "This sandbox takes no installs."})
    monkeypatch.setattr(inside.resource, "getrusage", lambda _: next(used))
    inside.serve_client(shell, "", {"hosts": True, "memory_mb": 9})
    shell.after[0](None)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("code", "fetches"),
    [
        ("!git clone https://example.org/x", True),
        ("x = 1\n  !cd /tmp && git -C x pull", True),
        ("!curl -sS https://example.org | head", True),
        ("!ls; wget example.org", True),
        ("!git status", False),
        ("!git status; python clone", False),
        ("!ls .git", False),
        ("!python make.py git clone", False),
        ("!curl-config --version", False),
        ("curl = 5", False),
    ],
)
def test_only_what_fetches_is_told_that_there_is_no_network(inside: ModuleType, code: str, fetches: bool) -> None:
    """Whatever goes wrong, git exits with one number."""
    assert bool(inside.FETCHES.search(code)) is fetches


def test_variables_are_found_beside_what_ipython_keeps(inside: ModuleType) -> None:
    """New ones, those that moved to the end, and none that is gone; of what is kept, only what is new is looked at."""
    names: dict[str, Any] = {"In": [], "a": 1}
    variables = inside.Variables(names)
    assert variables.values() == [1, []]
    for cell in range(3):
        names[f"_i{cell}"] = names[f"_{cell}"] = "kept"
        names[f"b{cell}"] = cell
        assert sorted(map(str, variables.values())) == sorted(["1", "[]", *map(str, range(cell + 1))])
    del names["a"], names["b0"]
    names |= {"c": 5, "a": 6}
    del names["b2"]
    names["b2"] = 7
    assert sorted(variables.values()[-10:], key=str) == [1, 5, 6, 7, []]
    names.clear()
    names["d"] = 8
    assert variables.values() == [8]


def test_looking_at_variables_takes_no_longer_after_many_cells(inside: ModuleType) -> None:
    """Of 100,000 kept outputs, those are looked at that came since the last look."""

    class Names(dict[str, Any]):
        looked = 0

        def __reversed__(self) -> Any:
            for name in super().__reversed__():
                self.looked += 1
                yield name

    names = Names(a=1, **{f"_{cell}": "" for cell in range(100_000)})
    variables = inside.Variables(names)
    variables.values()
    names.looked, names["_100000"], names["b"] = 0, "", 2
    assert variables.values() == [1, 2]
    assert names.looked == 3
