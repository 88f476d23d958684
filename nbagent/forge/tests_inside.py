"""Runs inside of the forge's sandbox, after `load_inside.py`: runs a tool's tests and reports the results.

`run_tests(…)` returns JSON: `{"nonce", "code", "outcomes", "calls"}`. pytest runs in a thread, since the main thread of
a kernel has a running event loop, and tests may start their own. Its output is the cell's.
"""

import functools
import importlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any


def run_tests(name: str, nonce: str) -> str:
    """Run the tests that `load` has written to a file."""
    import pytest

    folder = sys.path[0]
    plugin = ResultsPlugin(name)
    code = [3]

    def work() -> None:
        options = ["-q", "--tb=short", "--maxfail=5", "--color=no", "--capture=sys", "-p", "no:cacheprovider"]
        options += ["-p", "no:faulthandler", "-c", os.path.join(folder, "pytest.ini"), "--rootdir", folder]
        code[0] = int(pytest.main([*options, os.path.join(folder, f"test_{name}.py")], plugins=[plugin]))

    os.environ["COLUMNS"] = "100"
    os.chdir(folder)
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    return json.dumps({"nonce": nonce, "code": code[0], "outcomes": plugin.outcomes, "calls": plugin.calls})


class ResultsPlugin:
    """A pytest plugin that counts calls of the tool, and keeps the result of each test."""

    def __init__(self, name: str) -> None:
        self.outcomes: dict[str, str] = {}
        self.calls = 0
        module = importlib.import_module(name)
        setattr(module, name, self._count_calls(getattr(module, name)))

    def _count_calls(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function, updated=())
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return function(*args, **kwargs)

        return counted

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the worst result of a test's phases and cases."""
        name = ".".join(part.partition("[")[0] for part in report.nodeid.split("::")[1:])
        if report.when == "call" or report.outcome != "passed":
            worst = {self.outcomes.get(name), report.outcome}
            self.outcomes[name] = next(each for each in ("failed", "skipped", "passed") if each in worst)
