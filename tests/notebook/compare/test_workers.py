"""The lines of one thread have one order; those of several, or of one beside its cell's own, have none."""

from __future__ import annotations

import pytest
from notebook.compare.shared import MOMENTS, stream

from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.reads import Code
from nbagent.notebook.compare.texts import Context

TICK = "import threading, asyncio\ndef tick(): print('tick')"
MADE = "t = threading.Thread(target=tick)"
LIST = "ts = [threading.Thread(target=tick, args=(1,), name='a')]\nfor t in ts: t.start()\nfor t in ts: t.join()"
POOL = "with ThreadPoolExecutor(4) as pool: print(list(pool.map(tick, range(3))))"


def may_swap(*cells: str) -> bool:
    """Whether two lines of the last cell may come in another order."""
    code = Code()
    reads = [code.take(each) for each in (TICK, *cells)][-1]
    return not compare([stream("b\na\n")], [stream("a\nb\n")], Context(moments=MOMENTS, reads=reads)).differences


@pytest.mark.parametrize(
    "cells",
    [
        (LIST,),
        (f"{LIST}\nprint('all ended')",),
        (f"{MADE}; t.start(); t.join(); print('joined')",),
        (f"print('begin'); {MADE}; t.start()",),
        (f"{MADE}; t.start()", "t.join(); print('joined')"),
        (POOL, "await asyncio.gather(tick(), tick())", f"{MADE}; t.start()", "t.join(); print('joined')"),
        (f"{MADE}; t.start(); t.join()\nt = threading.Thread(target=tick); t.start(); t.join(); print('joined')",),
    ],
)
def test_lines_of_one_thread_have_one_order(cells: tuple[str, ...]) -> None:
    """Also over cells, and with the cell's own lines before its begin and after its end."""
    assert not may_swap(*cells)


@pytest.mark.parametrize(
    "cells",
    [
        (POOL,),
        (LIST.replace("]", ", threading.Thread(target=tick)]"),),
        (LIST.replace("args=(1,)", "args=(n,)").replace("]", " for n in range(2)]"),),
        (f"{MADE}; t.start(); print('begun'); t.join()",),
        (f"{MADE}; t.start()", "print('begun'); t.join()"),
        (f"{MADE}; t.start()", "t.join(timeout=1); print('joined')"),
        (f"{MADE}; t.start()", LIST),
        (f"def run():\n    {MADE}; t.start()\nfor n in range(2): run()", LIST),
        ("pool = ThreadPoolExecutor(2); pool.submit(tick)", LIST),
        ("task = asyncio.create_task(tick())", LIST),
        (f"for n in range(2):\n    {MADE}; t.start()\nt.join()",),
        (f"{POOL}\nwith ThreadPoolExecutor() as pool:\n  for f in as_completed(fs): rows.append(f)", "print(rows)"),
    ],
)
def test_lines_of_several_threads_have_no_order(cells: tuple[str, ...]) -> None:
    """Nor those of one and of its cell, where nobody waits for its end."""
    assert may_swap(*cells)
