"""Cells that show dates, ids, timings and addresses, run over and over in a sandbox: none of it is a difference."""

from __future__ import annotations

import itertools
import time
from typing import Any

import machine

from nbagent.kernel.kernel import Kernel
from nbagent.notebook.compare.cell import compare
from nbagent.notebook.compare.dates import Moments
from nbagent.notebook.compare.reads import Code, Reads
from nbagent.notebook.compare.texts import Context
from nbagent.notebook.sweep import PAST

HONEST = """
import datetime, time, uuid, os, random, tempfile, logging, sys, secrets
---
print('Report of', datetime.date.today(), 'at', datetime.datetime.now().strftime('%H:%M:%S'))
---
t = time.perf_counter()
x = sum(range(1000 * random.Random(time.time()).randint(1, 30)))
print(f'done in {time.perf_counter() - t:.3f} s')
---
print('run', uuid.uuid4(), uuid.uuid4().hex[:8], secrets.token_hex(4))
---
print(object(), tempfile.mkdtemp())
---
%timeit -n 2 -r 2 sum(range(100))
---
%%time
y = 1
---
datetime.datetime.now()
---
print(int(time.time()), time.ctime(), time.time())
---
logging.basicConfig(stream=sys.stdout, format='%(asctime)s %(process)d %(message)s', force=True)
logging.warning('hi')
---
def timed(f):
    t = time.time()
    f()
    return time.time() - t
---
took = timed(lambda: sum(range(5000)))
print('elapsed', round(took, 4), f'{took * 1e6:.1f} µs', f'{5000 / (took + 1e-9):,.0f} rows/s')
---
print(timed(lambda: None))
---
print(datetime.timedelta(seconds=time.perf_counter() - t))
---
print(id(x) % 10**9, hash('a') != 0, {'b', 'a'})
---
import warnings
warnings.warn(f'at {time.time()}')
""".split("---\n")


async def test_honest_cells_are_the_same_a_hundred_times() -> None:
    """With dates, ids, timings and addresses in their outputs: of each four of ten runs, not one false alarm."""
    reads: list[Reads] = []
    code = Code()
    for each in HONEST:
        reads.append(code.take(each))
    runs: list[list[tuple[list[Any], float]]] = []
    started = time.time()
    for count, clock in ((10, None), (2, PAST)):
        async with Kernel(machine.works("bubblewrap")) as kernel:
            if clock:
                await kernel.evaluate(clock, [[time.time()]])
            for _ in range(count):
                runs.append([])
                for each in HONEST:
                    at = time.time()
                    runs[-1].append(((await kernel.run(each)).outputs, at))
    *runs, uneven, uneven_again = runs
    alarms = []
    for stored, fresh, again, third in itertools.combinations(runs, 4):
        for number, (one, two, *more) in enumerate(zip(stored, fresh, again, third, strict=True)):
            moments = Moments(stored=one[1], fresh=two[1], elapsed=two[1] - started)
            context = Context(moments=moments, reads=reads[number])
            # Runs may agree by chance on a time, so a third one decides, and then two whose clocks are uneven.
            clocks = [uneven[number], uneven_again[number]]
            for former, runs_again in ((two, more[:1]), (two, more), (clocks[0], clocks[1:])):
                found = compare(one[0], former[0], context, again=[outputs for outputs, _ in runs_again])
                if not found.differences:
                    break
            alarms += [f"{HONEST[number]!r}: {each} ({each.cause})" for each in found.differences]
    assert alarms == []
