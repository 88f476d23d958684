"""nbagent's own code inside a kernel, kept from one call to the next."""

from __future__ import annotations

import ast
import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator

import machine
import pytest
import pytest_asyncio
from kernel.shared import Events

from nbagent.core.events import LateOutputAdded
from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel

pytestmark = pytest.mark.asyncio(loop_scope="module")
COUNTER = "seen = []\ndef main(value):\n    seen.append(value)\n    return seen"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel(all_events: Events) -> AsyncIterator[Kernel]:
    """A sandbox that all tests here share."""
    async with Kernel(machine.works("bubblewrap"), notify=all_events.append) as running:
        yield running


async def test_a_module_is_sent_once_and_keeps_its_state(kernel: Kernel) -> None:
    """The second call is as short as its arguments, and finds what the first one left."""
    long = COUNTER + "\n#" + "x" * 100_000
    assert await kernel.evaluate(long, [1]) == [1]
    assert await kernel.evaluate(long, [2]) == [1, 2]
    assert len(inside_calls.call(long, [2], kept=True)) < 500


async def test_two_modules_do_not_mix(kernel: Kernel) -> None:
    other = COUNTER + "\n# another"
    assert await kernel.evaluate(other, ["a"]) == ["a"]
    assert await kernel.evaluate(COUNTER, ["b"]) == ["b"]
    assert await kernel.evaluate(other, ["c"]) == ["a", "c"]


async def test_code_that_throws_it_away_is_sent_it_again(kernel: Kernel) -> None:
    """A module that isn't there any more costs one more request and its state."""
    assert await kernel.evaluate(COUNTER + "#", [1]) == [1]
    await kernel.run("get_ipython().kernel.__dict__['_nbagent'].clear()")
    assert await kernel.evaluate(COUNTER + "#", [2]) == [2]


async def test_a_new_kernel_is_sent_it_again(kernel: Kernel) -> None:
    """After a restart nothing is taken for granted."""
    assert await kernel.evaluate(COUNTER + "##", [1]) == [1]
    await kernel.restart()
    assert await kernel.evaluate(COUNTER + "##", [2]) == [2]


async def test_bytes_travel_along_with_a_call(kernel: Kernel) -> None:
    """As the buffers of a Jupyter message, any bytes and many of them."""
    source = "def main():\n    return [[len(each), bytes(each[:3]).hex()] for each in buffers()]\n"
    source += "def buffers():\n    return get_ipython().kernel.get_parent()['buffers']\n"
    source += "from IPython import get_ipython\n"
    sent = [b"\0\xff\n", b"", b"ab" * 2_000_000]
    assert await kernel.evaluate(source, [], buffers=sent) == [[3, "00ff0a"], [0, ""], [4_000_000, "616261"]]


async def test_many_calls_do_not_cost_a_thread_its_cell(kernel: Kernel, events: Events) -> None:
    """What a thread prints after hundreds of silent requests still belongs to the cell that started it."""
    cell = await kernel.run("import threading, time\nthreading.Timer(1, print, ['late']).start()")
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        await kernel.evaluate(COUNTER, [0])
    late = events.of(LateOutputAdded)
    # The end of the line may come by itself.
    assert "".join(each.output["text"] for each in late) == "late\n"
    assert {each.cell for each in late} == {cell.cell}


@pytest.mark.parametrize(
    "reply",
    [None, {}, {"user_expressions": None}, {"user_expressions": {"value": {"data": {inside_calls.RESULT_MIME: 5}}}},
     {"user_expressions": {"value": {"status": "error", "ename": "NameError"}}},
     {"user_expressions": {"value": {"data": {"text/plain": "'[1]'"}}}},
     *({"user_expressions": {"value": {"data": {inside_calls.RESULT_MIME: text}}}} for text in (
         "", "[", "1", "{}", "[]", "[1, 2]", "[NaN]", "[Infinity]", "[1e999999999]", f"[{'9' * 1_000_001}]",
         "[" * 10_000, '{"":' * 10_000, f"[{'[],' * 1_000_000}1]", f"['{'x' * 5_000_000}']", "__import__('os')",
     ))],
    ids=lambda each: repr(each)[-40:],
)  # fmt: skip
async def test_whatever_comes_back_is_a_value_or_none(reply: dict[str, object] | None) -> None:
    """A kernel in hostile hands may answer anything; nothing of it is run."""
    assert inside_calls.result(reply) is None
    assert not inside_calls.is_missing(reply)


HOSTILE = """
for space in get_ipython().kernel.__dict__['_nbagent'].values():
    if 'seen' in space:
        space['main'] = lambda *_: [[]] * 1_000_000
"""


async def longest_pause(kernel: Kernel, source: str, calls: int) -> float:
    """Seconds of this thread's for which nothing else of this loop ran, at most, while a module was called."""
    pauses = [0.0]

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            pauses.append(time.thread_time() - before)

    ticking = asyncio.create_task(tick())
    for _ in range(calls):
        await kernel.evaluate(source, ["x" * 100_000])
    ticking.cancel()
    return sorted(pauses)[-3]


async def test_hostile_results_stall_nobody(kernel: Kernel) -> None:
    """A result of a million lists keeps the others of this process waiting no longer than an honest long text does."""
    source = COUNTER + "# stalled"
    honest = await longest_pause(kernel, source, 10)
    await kernel.run(HOSTILE)
    assert await kernel.evaluate(source, [1]) is None
    assert await longest_pause(kernel, source, 10) < 10 * honest + 5 * machine.pace()


@pytest.mark.parametrize("name", ["profile_inside.py", "find_inside.py", "listing_inside.py"])
async def test_modules_that_are_sent_as_one_share_no_name(name: str) -> None:
    """Else the later one would take the place of the earlier one, and of its callers."""
    defined = [
        each
        for node in ast.parse(inside_calls.source_of(name)).body
        for each in (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
            if isinstance(node, ast.Assign | ast.AnnAssign)
            else []
        )
    ]
    assert [each for each, count in Counter(defined).items() if count > 1] == []
