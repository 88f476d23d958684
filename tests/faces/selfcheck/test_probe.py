"""How the outcome of an attack is judged, without a sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from nbagent.core.events import Cell
from nbagent.faces.selfcheck.check import AFTERWARDS, GROUPS, PROBES
from nbagent.faces.selfcheck.probe import Finding, Probe, ProbeVerdict, excuse, judge
from nbagent.kernel.recovery import LOST_NOTE

PROBE = Probe(name="try_it", threat="1", group="tests", title="Try it", expected="nothing")


def attack(host: Any) -> object:
    """An attack that takes what it is given."""
    if host["raises"]:
        raise {"os": OSError(13, "Permission denied"), "memory": MemoryError(), "bug": NameError("x")}[host["raises"]]
    return host["gets"]


def ran(source: str) -> Cell:
    """The cell of a kernel that ran this code."""
    lines: list[str] = []
    exec(compile(source, "<cell>", "exec"), {"print": lines.append})  # noqa: S102 - what a kernel does with it
    return cell("\n".join(lines))


def cell(text: str, status: Any = "ok", note: str = "") -> Cell:
    """A cell that printed this."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": text}]
    return Cell(
        cell=1, code="", status=status, outputs=outputs, execution_count=1, duration=0.1, note=note, installed=[]
    )


@pytest.mark.parametrize(
    ("host", "verdict", "seen"),
    [
        ({"gets": None}, ProbeVerdict.HELD, "got nothing"),
        ({"gets": []}, ProbeVerdict.HELD, "got nothing"),
        ({"gets": True}, ProbeVerdict.BROKEN, "it succeeded"),
        ({"gets": ["a", 2]}, ProbeVerdict.BROKEN, "a, 2"),
        ({"gets": "x" * 1000}, ProbeVerdict.BROKEN, "x" * 160 + "…"),
        ({"gets": None, "raises": "os"}, ProbeVerdict.HELD, "Permission denied"),
        ({"gets": None, "raises": "memory"}, ProbeVerdict.HELD, "MemoryError: "),
        ({"gets": None, "raises": "bug"}, ProbeVerdict.UNCLEAR, "NameError: x"),
    ],
)
def test_what_an_attack_comes_to(host: dict[str, Any], verdict: ProbeVerdict, seen: str) -> None:
    """To get something is to succeed, to be refused by Linux is to fail, and a mistake of the probe's is neither."""
    probe = replace(PROBE, attack=attack)
    found = judge(probe, ran(probe.source({"raises": "", **host})))
    assert (found.verdict, found.seen.strip()) == (verdict, seen.strip())


@pytest.mark.parametrize("text", ["", "[", "null", "3", json.dumps({"other": 1})])
def test_a_cell_without_an_outcome_is_unclear(text: str) -> None:
    """What is no outcome proves nothing, and is not taken for a wall that held."""
    assert judge(PROBE, cell(text)).verdict is ProbeVerdict.UNCLEAR


def test_warnings_do_not_blur_an_outcome() -> None:
    """What goes to standard error is none of it, before or after; Python warns there of a fork beside threads."""
    streams = [
        ("stderr", "<cell>:3: DeprecationWarning: fork"),
        ("stdout", '{"got":'),
        ("stderr", "x"),
        ("stdout", " 7}\n"),
    ]
    outputs = [{"output_type": "stream", "name": name, "text": text} for name, text in streams]
    assert judge(PROBE, structs.replace(cell(""), outputs=[*outputs, outputs[0]])).seen == "7"


def test_only_an_attack_on_memory_may_end_the_kernel() -> None:
    """A kernel that ran out of memory has held its limit; one that is gone for another reason proves nothing."""
    at_limit = cell("", "died", "The kernel ran out of memory (limit 256 MB); raise it with --memory.")
    crashed = cell("", "died", "The kernel was killed by SIGSEGV.")
    memory = replace(PROBE, may_kill=True)
    assert judge(memory, at_limit).verdict is ProbeVerdict.HELD
    assert judge(memory, crashed).verdict is ProbeVerdict.UNCLEAR
    assert judge(PROBE, at_limit).verdict is ProbeVerdict.UNCLEAR


def test_a_row_ends_with_why_the_kernel_is_gone() -> None:
    """What is lost with every kernel isn't said in each row, and leaves the reason whole."""
    why = (
        "The kernel was ended for what it took of the machine: it had 12,892 open files, of which a sandbox may have 9."
    )
    assert judge(replace(PROBE, may_kill=True), cell("", "died", f"{why} {LOST_NOTE}")).seen == why


def test_a_reason_excuses_what_is_broken_only() -> None:
    """A declared failure is shown as known with its reason; what held, or came to nothing, stays what it is."""
    for verdict in ProbeVerdict:
        found = excuse(Finding(probe=PROBE, verdict=verdict, seen=""), {"try_it": "so it is"})
        assert found.verdict is (ProbeVerdict.KNOWN if verdict is ProbeVerdict.BROKEN else verdict)
    assert excuse(Finding(probe=PROBE, verdict=ProbeVerdict.BROKEN, seen=""), {}).verdict is ProbeVerdict.BROKEN


def test_each_probe_can_be_told_from_the_others() -> None:
    """Names and titles are unique, and all groups of attacks are tried."""
    assert len({each.name for each in PROBES}) == len({each.title for each in PROBES}) == len(PROBES)
    assert len(PROBES) == sum(len(group.probes) for group in GROUPS) + len(AFTERWARDS)
    assert all(each.title and each.expected and each.levels for each in PROBES)


@pytest.mark.parametrize("probe", [each for each in PROBES if each.attack], ids=lambda probe: probe.name)
def test_an_attack_travels_alone(probe: Probe) -> None:
    """Its source can be compiled by itself, and names nothing of the module that it comes from."""
    space: dict[str, Any] = {"__name__": "cell"}
    body = probe.source({}).partition("\ntry:\n    print(")[0]
    exec(compile(body, "<cell>", "exec"), space)  # noqa: S102 - defines the function, without calling it
    code = space[probe.name].__code__
    given = {*dir(__import__("builtins")), "get_ipython", *space}
    names = {name for each in (code, *_inner(code)) for name in _globals(each)}
    assert names <= given


def _inner(code: Any) -> list[Any]:
    found = [each for each in code.co_consts if hasattr(each, "co_code")]
    return [*found, *(deeper for each in found for deeper in _inner(each))]


def _globals(code: Any) -> set[str]:
    import dis

    return {str(each.argval) for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}


@pytest.mark.parametrize(
    ("limit", "pattern", "seen"),
    [
        ((0, 0), "core", ""),
        ((0, 4095), "core", ""),
        ((0, 4096), "core", "up to 4096 in core"),
        ((1, 1), "|/usr/lib/reader", "Linux starts |/usr/lib/reader"),
        ((0, 0), "|/usr/lib/reader", "Linux starts |/usr/lib/reader"),
        ((0, 0), "@@/run/reader", "Linux connects to @@/run/reader"),
    ],
)
def test_the_self_check_knows_limits_that_can_be_changed(limit: Any, pattern: str, seen: str) -> None:
    """Below a page, no file is written; a program is started at any limit but 1."""
    (probe,) = (each for each in PROBES if each.name == "leave_core_files")
    code = f"""
import io, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, {limit})
open = lambda name: io.StringIO({pattern!r})
exec(compile(sys.stdin.read(), "probe", "exec"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=probe.source({}), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["got"] == (seen or None)
