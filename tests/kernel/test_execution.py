"""What became of one request, by what came back of it."""

from __future__ import annotations

from typing import Any

import pytest

from nbagent.kernel.execution import ExecuteRequest
from nbagent.kernel.outputs.displays import DisplayIndex
from nbagent.kernel.outputs.outputs import CellOutputs

MISSING = {"status": "error", "ename": "ModuleNotFoundError", "evalue": "No module named 'google'"}


def execution(**known: Any) -> ExecuteRequest:
    """A request of which this is known."""
    return ExecuteRequest("id", CellOutputs(displays=DisplayIndex()), 1, 0.0, **known)


@pytest.mark.parametrize(
    ("known", "status"),
    [
        ({"reply": {"status": "ok"}}, "ok"),
        ({"reply": {"status": "error"}}, "error"),
        ({"reply": {"status": "aborted"}}, "error"),
        ({"died": "was killed"}, "died"),
        ({"died": "was killed", "stopped": "timeout"}, "timeout"),
        ({"reply": {"status": "error"}, "stopped": "interrupted"}, "interrupted"),
        ({"reply": {"status": "ok"}, "stopped": "timeout"}, "ok"),
    ],
)
def test_a_request_has_the_status_of_its_end(known: dict[str, Any], status: str) -> None:
    """A cell that was stopped and went on to its end all the same is no failure."""
    assert execution(**known).status == status


def test_a_request_has_ended_with_its_reply_and_idle_or_with_a_death() -> None:
    """The reply and idle come in any order; a death ends it too."""
    assert not execution(reply={"status": "ok"}).done
    assert not execution(idle=True).done
    assert execution(reply={"status": "ok"}, idle=True).done
    assert execution(died="is gone").done


@pytest.mark.parametrize(
    ("code", "module"),
    [
        ("import google", "google"),
        ("x = 1\nfrom google.cloud.storage import Client", "google.cloud.storage"),
        ("if x:\n    import google.protobuf", "google.protobuf"),
        ("import googleapiclient.discovery", "google"),
    ],
)
def test_the_missing_module_has_its_whole_name(code: str, module: str) -> None:
    """Python names only the part that it missed first; the code tells the rest."""
    assert execution(reply=MISSING).missing_module(code) == module


def test_only_a_module_not_found_names_a_missing_module() -> None:
    """Another error, a cell that was stopped, or one that died asks for no package."""
    assert execution(reply=MISSING | {"ename": "ImportError"}).missing_module("import google") is None
    assert execution(reply=MISSING, stopped="timeout").missing_module("import google") is None
    assert execution(died="is gone").missing_module("import google") is None


@pytest.mark.parametrize(
    ("ename", "evalue", "module"),
    [
        ("ImportError", "Missing optional dependency 'openpyxl'.  Use pip or conda to install openpyxl.", "openpyxl"),
        ("ImportError", "`Import lxml` failed.  Use pip or conda to install the lxml package.", "lxml"),
        ("ImportError", "`Import pytables` failed.  Use pip, conda, or", "tables"),
        ("ImportError", "`Import python-calamine` failed.  Use pip, conda, or", "python_calamine"),
        ("ModuleNotFoundError", "required package 'xlsxwriter' not found.\nPlease install using", "xlsxwriter"),
        ("FeatureNotFound", "Couldn't find a tree builder with the features you requested: html5lib. Do", "html5lib"),
        ("ImportError", "plotting needs more. Try `pip install tabulate`.", "tabulate"),
        ("ImportError", "please pip install scikit-learn", None),
        ("ImportError", "please pip install foo[bar]", None),
        ("ImportError", "cannot import name 'x' from 'y'", None),
        ("AttributeError", "The '.style' accessor requires jinja2", "jinja2"),
        ("AttributeError", "The thing needs jinja2: pip install jinja2", None),
        ("ValueError", "Missing optional dependency 'openpyxl'", None),
    ],
)
def test_an_optional_module_is_named_by_the_library_that_lacks_it(ename: str, evalue: str, module: str | None) -> None:
    """What pandas, Polars, Beautiful Soup and others say they lack is installed as a missing module is."""
    reply = {"status": "error", "ename": ename, "evalue": evalue}
    assert execution(reply=reply).missing_module("import pandas") == module
