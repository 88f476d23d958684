"""What a page hears of a sandboxed kernel, whatever that says: nothing that acts."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from safety.sanitize.test_browser import tried

from nbagent.core.events import Record, to_json
from nbagent.faces.lab.kernel_messages import KINDS, SETTING, passed_on
from nbagent.faces.lab.records import harmless

ASKED = {"msg_id": "a", "msg_type": "execute_request", "session": "s", "username": "u", "date": "d", "version": "5.4"}


class Elements(HTMLParser):
    """Fails where an element runs or loads something."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at its name and its attributes."""
        assert tag not in ("script", "iframe", "object", "embed", "link", "meta", "base", "form")
        for name, value in attrs:
            assert not name.startswith(("on", "data-", "srcset")), (tag, name)
            assert name not in ("src", "xlink:href") or re.match("data:image/|#", value or ""), (tag, value)


def passed(channel: str, kind: str, content: Any, **more: Any) -> dict[str, Any] | None:
    """The message as it is passed on: its content, and its other parts below `parts`."""
    header = {**ASKED, "msg_id": "b", "msg_type": kind, **more}
    parts = [json.dumps(each).encode() for each in (header, ASKED, {"started": "t", "x": [1]}, content)]
    found = passed_on(channel, [*parts, b"a buffer"])
    if found is None:
        return None
    assert len(found) == 4
    *others, said = map(json.loads, found)
    return {**said, "parts": others}


@pytest.mark.parametrize("state", ["restarting", "autorestarting", "dead", "", "x" * 9_999, ["idle"]])
def test_a_kernel_says_no_more_of_its_state_than_it_knows(state: Any) -> None:
    """That it restarts or is dead says the server: at each such word a page connects anew, or asks the person."""
    assert passed("iopub", "status", {"execution_state": state}) is None
    for own in ("starting", "busy", "idle"):
        assert passed("iopub", "status", {"execution_state": own})["execution_state"] == own  # type: ignore[index]


def test_a_cell_is_heard_as_it_runs() -> None:
    """Who asked, when it began, what it printed and showed."""
    found = passed("iopub", "stream", {"name": "stdout", "text": "1 \ud800\n"})
    assert found == {
        "name": "stdout",
        "text": "1 ?\n",
        "parts": [{**ASKED, "msg_id": "b", "msg_type": "stream"}, ASKED, {"started": "t"}],
    }
    table = "<table><tbody><tr><td>1</td></tr></tbody></table>"
    shown = {"data": {"text/html": table, "text/plain": "1"}, "metadata": {}, "transient": {"display_id": "x"}}
    found = passed("iopub", "execute_result", {**shown, "execution_count": 3})
    assert found is not None
    assert found["data"] == {"text/html": table, "text/plain": "1"}
    assert (found["execution_count"], found["transient"]) == (3, {"display_id": "x"})
    failed = {"status": "error", "ename": "E", "evalue": "v", "traceback": ["t"], "execution_count": 4}
    assert passed("shell", "execute_reply", failed)["traceback"] == ["t"]  # type: ignore[index]
    assert passed("stdin", "input_request", {"prompt": "?", "password": True})["password"] is True  # type: ignore[index]


def test_what_acts_on_a_page_is_not_heard() -> None:
    """Cells that a reply names, links for a menu, models of widgets, exporters, bundles that are drawn as trusted."""
    bundle = {"text/plain": "a", "text/html": "<script>1</script>", "image/png": ["a"], "image/jpeg": "b"}
    payload = [{"source": "set_next_input", "text": "planted"}]
    reply = {"status": "ok", "payload": payload, "user_expressions": {"e": {"status": "ok", "data": bundle, "x": 1}}}
    found = passed("shell", "execute_reply", reply)
    assert found is not None
    assert "payload" not in found
    still = {"text/plain": "a", "image/jpeg": "b"}
    assert found["user_expressions"] == {"e": {"status": "ok", "data": still, "metadata": {}}}
    found = passed("shell", "inspect_reply", {"status": "ok", "found": True, "data": bundle, "metadata": {"x": 1}})
    assert (found["data"], found["metadata"]) == (still, {})  # type: ignore[index]
    language = {"name": "<b>", "version": "3.11<b>", "nbconvert_exporter": "evil.Run", "codemirror_mode": "x"}
    links = [{"text": "Help", "url": "javascript:1"}]
    found = passed("shell", "kernel_info_reply", {"language_info": language, "help_links": links, "banner": "b"})
    assert (found["help_links"], found["language_info"]["nbconvert_exporter"]) == ([], "python")  # type: ignore[index]
    assert found["language_info"]["version"] == "3.11"  # type: ignore[index]
    assert passed("shell", "comm_info_reply", {"comms": {"a": {"target_name": "jupyter.widget"}}})["comms"] == {}  # type: ignore[index]
    found = passed("control", "debug_reply", {"type": "response", "body": {"data": bundle, "variables": [1]}})
    assert found["body"] == {"data": still, "variables": [1], "metadata": {}}  # type: ignore[index]
    for kind in ("comm_open", "comm_msg", "comm_close", "data_pub", "display_data "):
        assert passed("iopub", kind, {"comm_id": "a", "target_name": "jupyter.widget", "data": {}}) is None


@pytest.mark.parametrize("kind", ["display_data", "update_display_data", "execute_result"])
def test_what_a_cell_shows_is_cleaned(kind: str) -> None:
    """A note says what was left out, and which setting has it drawn."""
    data = {
        "text/html": "<p onclick=a()>x<img src=http://a.invalid></p>",
        "application/vnd.vegalite.v5+json": {"data": {"url": "http://a.invalid"}},
        "application/javascript": "alert(1)",
    }
    found = passed("iopub", kind, {"data": data, "metadata": {"text/html": {"isolated": True}}})
    assert found is not None
    assert set(found["data"]) == {"text/html", "text/plain"}
    assert "a.invalid" not in found["data"]["text/html"].replace("a picture from a.invalid", "")
    assert all(SETTING in each.replace("&quot;", '"') for each in found["data"].values())
    assert "isolated" not in json.dumps(found["metadata"])


def test_a_drawing_is_a_picture() -> None:
    """In which it neither runs nor loads anything: JupyterLab draws SVG only where it trusts the output."""
    drawing = "<svg xmlns='http://www.w3.org/2000/svg'><rect width='9' height='9' onclick='a()'/></svg>"
    found = passed("iopub", "display_data", {"data": {"image/svg+xml": drawing}, "metadata": {}})
    assert found is not None
    encoded = re.fullmatch(r'<img alt="" src="data:image/svg\+xml;base64,([^"]+)">', found["data"]["text/html"])
    assert encoded is not None
    written = base64.b64decode(encoded[1]).decode()
    assert "<rect" in written
    assert "onclick" not in written


def test_plotly_draws_its_figures_or_says_what_is_missing() -> None:
    """Its first script, of which nothing is seen, is no output."""
    first = {"text/html": "\n <script type=text/javascript>\nwindow.PlotlyConfig = {};</script>"}
    assert passed("iopub", "display_data", {"data": first, "metadata": {}}) is None
    figure = {"application/vnd.plotly.v1+json": {"data": [], "layout": {}}, "text/html": "<script>1</script>"}
    found = passed("iopub", "display_data", {"data": figure, "metadata": {}})
    assert "pip install plotly" in found["data"]["text/html"]  # type: ignore[index]
    assert found["data"]["application/vnd.plotly.v1+json"] == {"data": [], "layout": {}}  # type: ignore[index]


@pytest.mark.parametrize(
    ("channel", "kind", "content"),
    [
        ("iopub", "stream", {"name": "stdout", "text": {"a": 1}}),
        ("iopub", "stream", {"name": "x", "text": "a"}),
        ("iopub", "error", {"ename": "E", "evalue": ["<b>"], "traceback": []}),
        ("iopub", "display_data", {"data": "text"}),
        ("shell", "stream", {"name": "stdout", "text": "a"}),
        ("shell", "complete_reply", {"matches": [{"a": 1}]}),
        ("shell", "history_reply", {"history": [[1, 2, {"a": 1}]]}),
        ("stdin", "input_request", {"prompt": 1}),
    ],
)
def test_what_is_not_understood_is_not_heard(channel: str, kind: str, content: Any) -> None:
    """Neither a content of other types than the protocol's, nor a kind on a channel where it doesn't belong."""
    assert passed(channel, kind, content) is None


def test_no_message_is_broken_by_what_it_is_made_of() -> None:
    """Too few parts, no JSON, too deep, too long."""
    good = [
        json.dumps(each).encode() for each in ({**ASKED, "msg_type": "stream"}, {}, {}, {"name": "stdout", "text": ""})
    ]
    assert passed_on("iopub", good) is not None
    for at in range(4):
        for bad in (b"", b"x", b"[]", b"[" * 100_000, b'{"a":' * 100_000, b'"' + b"a" * 40_000_000, b"\xff"):
            assert passed_on("iopub", [*good[:at], bad, *good[at + 1 :]]) is None
        assert passed_on("iopub", good[:at]) is None


def test_each_kind_passes_when_it_is_empty_or_is_left_out() -> None:
    """A kernel of another version may leave out what it doesn't know."""
    needed = {"stream": {"name": "stdout", "text": ""}, "error": {"ename": "", "evalue": "", "traceback": []}}
    needed |= {each: {"data": {}} for each in ("display_data", "update_display_data", "execute_result")}
    needed |= {"status": {"execution_state": "idle"}, "execute_input": {"code": ""}}
    for channel, kind in KINDS:
        assert passed(channel, kind, needed.get(kind, {})) is not None, kind


def test_records_of_sessions_are_harmless() -> None:
    """Whatever was tried in a session: outputs as they come, those that change, those of a cell that ended."""
    seen = set()
    for number, event in enumerate(tried(), 1):
        line = to_json(Record(number, 0.0, event))
        found = json.loads(harmless(line))
        seen.add(found["event"]["type"])
        shown = found["event"].get("outputs", [found["event"].get("output", {})])
        for html in (each.get("data", {}).get("text/html", "") for each in shown):
            Elements().feed(html)
    assert "CellFinished" in seen
