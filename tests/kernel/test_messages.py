"""What is read of a kernel's messages, and of all else that a sandbox says, and what it costs at most."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nbagent.kernel import inside_calls
from nbagent.kernel.channels import messages
from nbagent.sandbox.channels.zmtp import encode, hello
from nbagent.sandbox.inside.message_sizes_inside import MAX_CONTENT, MAX_REPLY, MAX_WIDE
from nbagent.sandbox.untrusted import MAX_DIGITS, UnreadableError, parse

HEADER = {"msg_id": "1", "msg_type": "execute_reply"}


def read(
    content: Any, channel: messages.ReadChannel = "shell", kind: str = "execute_reply", metadata: bytes = b"{}"
) -> dict[str, Any]:
    """The content of a message, as it is read."""
    packed = content if isinstance(content, bytes) else json.dumps(content).encode()
    parts = [b"", json.dumps(HEADER | {"msg_type": kind}).encode(), b"{}", metadata, packed]
    messages.check(channel, parts)
    found = messages.parse_message(channel, parts)["content"]
    assert isinstance(found, dict)
    return found


def test_of_a_reply_its_own_fields_are_read() -> None:
    """Traceback, payload and whatever else a kernel adds is passed over."""
    content = {"status": "error", "ename": "E", "evalue": "v", "execution_count": 3, "traceback": ["x"], "payload": []}
    assert read(content) == {"status": "error", "ename": "E", "evalue": "v", "execution_count": 3}


@pytest.mark.parametrize("odd", [b"[1]", b"{}", b"1.5", b"1e999999", b"9" * 100_000, b"[" * 10_000 + b"]" * 10_000])
def test_a_field_that_makes_no_sense_hides_no_other(odd: bytes) -> None:
    """It is missing, and the reply is a reply; deeper than Python goes, it is none."""
    content = b'{"status":"ok","execution_count":' + odd + b"}"
    if odd.startswith(b"[["):
        with pytest.raises(ValueError, match=r"nested too deeply|too large"):
            read(content)
    else:
        assert read(content) == {"status": "ok", "ename": None, "evalue": None, "execution_count": None}


@pytest.mark.parametrize("said", [b"9" * 301, b"[-" + b"9" * 4_000 + b"]", b'{"\\"":' + b"9" * 400 + b"}"])
def test_no_number_is_read_that_the_host_cannot_reckon_with(said: bytes) -> None:
    """Dividing by such an integer, or showing it as a size, would raise an error that nobody expects."""
    with pytest.raises(UnreadableError, match="300 digits"):
        parse(said, limit=10_000)
    assert parse(said, limit=10_000, digits=MAX_DIGITS) == json.loads(said)


@pytest.mark.parametrize("text", ["9" * 5_000, '"' + "9" * 5_000, "\\" * 3 + '"' + "9" * 400 + '\\"'])
def test_digits_of_a_text_are_no_number(text: str) -> None:
    """However long they are, and whatever is escaped before them; what fits a float is read as well."""
    assert parse(json.dumps([text, 10**299, 0.1]), limit=20_000) == [text, 10**299, 0.1]


def test_an_output_may_show_a_number_of_any_length() -> None:
    shown = {"data": {"application/json": [10**400]}, "metadata": {}}
    assert read(shown, "iopub", "display_data")["data"] == shown["data"]


def test_a_result_is_found_in_its_reply() -> None:
    """As text, which `inside_calls.result` parses; what stands beside it is passed over."""
    shown = {"status": "ok", "data": {inside_calls.RESULT_MIME: "[5]", "text/plain": "x" * 1000}, "metadata": {}}
    found = read({"status": "ok", "user_expressions": {"value": shown, "other": [1, 2]}})
    assert found["user_expressions"] == {"value": {"data": {inside_calls.RESULT_MIME: "[5]"}}}
    assert inside_calls.result(found) == 5


@pytest.mark.parametrize(
    "metadata", [b'{"nbagent":"x","other":[1]}', b'{"nbagent":5}', b'{"nbagent":["x"]}', b"5", b"["]
)
def test_of_a_replys_metadata_a_report_is_read_if_it_is_a_text(metadata: bytes) -> None:
    """Whatever else stands there, the reply is a reply."""
    found = read({"status": "ok"}, metadata=metadata)
    assert found["status"] == "ok"
    assert found.get("report") == ("x" if b'"x",' in metadata else None)


def test_a_reply_is_smaller_than_an_output() -> None:
    """Nothing of it is shown, so it needs no room for pictures."""
    with pytest.raises(ValueError, match="too large"):
        read(b'"' + b"x" * MAX_REPLY + b'"')
    assert read(b'{"data":{"text/plain":"' + b"x" * MAX_REPLY + b'"}}', "iopub", "display_data")["data"]


def test_what_nobody_reads_is_not_parsed() -> None:
    """The code that a kernel repeats, and kinds that nobody knows: no JSON even."""
    assert read(b"[" * 100, "iopub", "execute_input") == {}
    assert read(b"", "iopub", "unheard_of") == {}


GROWTH = """
import json, sys
from nbagent.core.events import Cell
from nbagent.forge import workshop
from nbagent.kernel import describe, inside_calls
from nbagent.kernel.channels import messages
from nbagent.kernel.router import Router
from nbagent.sandbox.machine.handoff import MAX_LINE, MAX_REQUEST
from nbagent.sandbox.untrusted import parse
from nbagent.faces.selfcheck import machine_wide_inside  # so that what only an import costs is no growth
from nbagent.faces.selfcheck.probe import read_result

VALUES = {
    "lists": b"[" + b"[]," * 700_000 + b"1]",
    "some lists": b"[" + b"[]," * 50_000 + b"1]",
    "nested": b"[" + (b"[" * 50 + b"]" * 50 + b",") * 1_000 + b"1]",
    "objects": b"[" + b'{"a":1},' * 20_000 + b"1]",
    "strings": b"[" + b'"ab",' * 180_000 + b"1]",
    "numbers": b"[" + b"1.5," * 800_000 + b"1]",
    "deep": b"[" * 2_000_000,
    "deep objects": b'{"":' * 500_000,
    "digits": b"9" * 2_000_001,
    "many digits": b"[" + (b"9" * 4_000 + b",") * 500 + b"1]",
    "exponent": b"1e999999999",
    "keys": b"{" + b",".join(b'"%d":0' % each for each in range(100_000)) + b"}",
    "the same key": b"{" + b'"a":0,' * 200_000 + b'"a":1}',
    "wide": ('"' + "x" * 3_000_000 + "\\U0001f600" + '"').encode(),
    "surrogates": b'"' + b"\\\\ud800" * 100_000 + b'"',
    "no UTF-8": b'"' + b"\\xff" * 1_000_000 + b'"',
    "NaN": b"[NaN, Infinity]",
}

def result(value):
    text = json.dumps(value.decode("utf-8", "replace")).encode()
    key = inside_calls.RESULT_MIME.encode()
    return b'{"status":"ok","user_expressions":{"value":{"data":{"' + key + b'":' + text + b"}}}}"

def message(channel, kind, content):
    return channel, [b"", json.dumps({"msg_id": "1", "msg_type": kind}).encode(), b"{}", b"{}", content]

WIDGET = b'"jupyter.widget","data":{"state":{"_model_name":"a","_model_module":"b","_model_module_version":"1","x":'
MESSAGES = {
    "a result": lambda value: message("shell", "execute_reply", result(value)),
    "a field of a reply": lambda value: message("shell", "execute_reply", b'{"status":"ok","evalue":' + value + b"}"),
    "a reply": lambda value: message("shell", "execute_reply", value),
    "a display": lambda value: message("iopub", "display_data", b'{"data":{"application/json":' + value + b"}}"),
    "metadata": lambda value: message("iopub", "display_data", b'{"data":{},"metadata":{"a":' + value + b"}}"),
    "an update": lambda value: message("iopub", "update_display_data", b'{"data":{"a/json":' + value + b"}}"),
    "an error": lambda value: message("iopub", "error", b'{"ename":"a","traceback":' + value + b"}"),
    "a stream": lambda value: message("iopub", "stream", b'{"name":"stdout","text":' + value + b"}"),
    "a status": lambda value: message("iopub", "status", b'{"execution_state":' + value + b"}"),
    "a widget": lambda value: message("iopub", "comm_open", b'{"comm_id":"a","target_name":' + WIDGET + value + b"}}}"),
    "a header": lambda value: ("iopub", [b"", value, b"{}", b"{}", b"{}"]),
    "a parent": lambda value: ("iopub", [b"", b'{"msg_type":"stream"}', value, b"{}", b"{}"]),
    "a message's metadata": lambda value: ("iopub", [b"", b'{"msg_type":"stream"}', b"{}", value, b"{}"]),
}

def read(router, channel, parts):
    messages.check(channel, parts)
    found = messages.parse_message(channel, parts)
    if channel == "shell":
        inside_calls.result(found["content"])
    elif not router.widgets.add(found):
        router.begin(1).add(found)

def cell(output):
    return Cell(cell=1, code="", status="ok", outputs=[output])

OTHERS = {
    "a profile": lambda value: describe._Taken().take(b'{"path":"a","columns":' + value + b"}"),
    "process 1": lambda value: parse(value, limit=MAX_LINE),
    "a request": lambda value: parse(value, limit=2 * MAX_REQUEST),
    "a tool": lambda value: workshop._value(
        cell({"output_type": "execute_result", "data": {inside_calls.RESULT_MIME: value.decode("utf-8", "replace")}})
    ),
    "an attack": lambda value: read_result(
        cell({"output_type": "stream", "name": "stdout", "text": value.decode("utf-8", "replace")})
    ),
}

def most():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) >> 10

def main():
    pairs = [(name, value) for value in VALUES for name in (*MESSAGES, *OTHERS)]
    router = Router(lambda _: None)
    before, taken = 0, 0
    for count, (name, value) in enumerate(2 * pairs):
        if count == 1:
            before = most()
        try:
            if name in MESSAGES:
                read(router, *MESSAGES[name](VALUES[value]))
            else:
                OTHERS[name](VALUES[value])
            taken += 1
        except ValueError:
            pass
        router.forget()
    print(taken, most() - before)

main()
"""


LARGEST = """
import sys
from nbagent.kernel.channels import messages
from nbagent.sandbox.channels.zmtp import Decoder

def memory(name):
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith(name))) >> 10

before, decoder = memory("VmRSS"), Decoder()
with open(sys.argv[1], "rb") as wire:
    while chunk := wire.read(256 * 1024):
        decoder.feed(chunk)
        for parts in decoder.messages():
            messages.check("iopub", parts)
            print(len(messages.parse_message("iopub", parts)["content"]["data"]["text/html"]))
print(memory("VmHWM") - before)
"""


@pytest.mark.parametrize(("size", "end", "most"), [(MAX_CONTENT, "", 100), (MAX_WIDE, "\N{GRINNING FACE}", 160)])
def test_the_largest_message_costs_little_more_than_its_text(tmp_path: Path, size: int, end: str, most: int) -> None:
    """It is held once while it comes and once while it is parsed; its text takes what its widest character takes."""
    content = json.dumps({"data": {"text/html": "x" * (size - 100) + end}}, ensure_ascii=False).encode()
    parts = [b"", json.dumps(HEADER | {"msg_type": "display_data"}).encode(), b"{}", b"{}", content]
    (tmp_path / "wire").write_bytes(hello("DEALER") + encode(parts))
    command = [sys.executable, "-c", LARGEST, tmp_path / "wire"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    length, growth = map(int, done.stdout.split())
    assert length == size - 100 + len(end)
    assert growth <= most


def test_hostile_replies_of_every_kind_cost_little_memory() -> None:
    """Each of some 300 comes twice: at no moment has the process grown by more than 50 MB, though many are taken."""
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    taken, growth = map(int, done.stdout.split())
    assert taken > 100, "the bounds turn all of it down, so nothing was tried"
    assert growth <= 50
