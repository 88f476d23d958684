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
    for name in ("client_inside", "file_watch_inside", "magics_inside"):
        del sys.modules[name]
    return found


class Shell:
    """IPython's, with cells that always miss a module."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.after: list[Any] = []
        self.kernel = SimpleNamespace(get_parent=dict)
        self.display_pub = SimpleNamespace(clear_output=lambda wait: wait, publish=lambda data: data)
        self.events = SimpleNamespace(register=lambda _, call: self.after.append(call))

    def set_custom_exc(self, _: Any, handler: Any) -> None:
        self.handler = handler

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
