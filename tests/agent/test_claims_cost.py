"""What it costs to look for the numbers of an answer: time and memory grow with what is read, and no faster."""

from __future__ import annotations

import ast
import gc
import json
import subprocess
import sys
import time
import tracemalloc

import machine
import pytest
from agent.stub import printed

from nbagent.agent.claims import MAX_ANSWER, MAX_CLAIMS, REST, claims
from nbagent.agent.made_up.interpreter import Interpreter
from nbagent.agent.names import MAX_CODE
from nbagent.core.events import Claim


def test_long_honest_code_is_read_to_its_end() -> None:
    """So that a prefix that data is compared with, `08`, makes no number of the data made up."""
    code = """import csv, glob, os, re, pandas as pd
from collections import Counter
def is_in(y, w): return (y == 2002 and w >= 40) or (y == 2003 and w <= 20)
total = {}
for f in glob.glob("/tmp/data/a/*.csv"):
    k = "0" + re.match(r"\\d+", os.path.basename(f)).group(); total[k] = 0
    with open(f, encoding="cp1252", newline="") as h:
        for r in csv.DictReader(h, delimiter=";"):
            if is_in(int(r["year"]), int(r["week"][3:5])): total[k] += int(r["cases"])
for f in glob.glob("/tmp/data/b/*.txt"):
    k = "0" + re.search(r"(\\d+)\\.txt", f).group(1); total[k] = 0; head = None
    for line in open(f, encoding="cp1252"):
        c = [x.strip() for x in line.rstrip().split("\\t")]
        if c[0] == "Year": head = c
        elif head and c[0].isdigit():
            for h, v in zip(head[1:], c[1:]):
                if h.startswith("KW") and v != "-" and is_in(int(c[0]), int(h.split()[1])): total[k] += int(v)
names = pd.read_excel("/tmp/data/k.xlsx", dtype=str)
name = dict(zip(names["key"], names["name"]))
none = [k for k, n in total.items() if n == 0]
print("first", sum(k[:2] == "09" for k in none)); print("second", sum(k[:2] == "08" for k in none))
for a, n in Counter(name[k[:3]] for k in none).most_common(): print(a, n)"""
    found = claims("Most, 8, are in Swabia.", printed("first 24\nsecond 4\nSwabia 8"), code={1: code}, data=True)
    assert [(each.text, each.cell) for each in found] == [("8", 1)]


def test_what_is_made_of_texts_of_the_code_again_and_again_is_read_to_its_end() -> None:
    """What is not known to come of texts is not put together with itself at each step: it would grow and grow."""
    code = """import polars as pl
base = '/tmp/data/profiles/'
REF = 1_000_000; CUST = 100_000; Q = 4
parts = []
for n in ['G25', 'H25', 'L25', 'P25', 'S25']:
    raw = open(base + n + '.csv', encoding='cp1252').read().splitlines()
    head = list(zip(raw[0].split(';'), raw[1].split(';')))
    for r in raw[2:]:
        c = r.split(';')
        parts += [(n, m.strip(), k.strip(), c[0].strip(), float(v.replace(',', '.'))) for (m, k), v in zip(head, c)]
d = pl.DataFrame(parts, schema=['profile', 'month', 'day', 'time', 'kwh'])
d = d.with_columns(kw=pl.col('kwh') * CUST / REF * Q)
b = d.sort('kwh', descending=True).head(8).row(0, named=True)
print(b['profile'], b['month'], b['day'], b['time'], b['kwh'], f"{b['kw']:.1f} kW for {CUST} kWh a year")"""
    found = claims("There are 8 of them.", printed("G25 8 0.317 12.7 kW for 100000 kWh a year"), code={1: code})
    assert [(each.text, each.cell) for each in found] == [("8", 1)]


def test_numbers_with_the_same_hash_take_no_longer() -> None:
    """Whoever writes code or data can choose thousands of them: Python's hash of numbers has no secret."""

    def seconds(factor: int) -> float:
        chosen = [each * factor for each in range(1, 4_000)]
        names = "\n".join(f"x = {each}" for each in chosen)
        pairs = ", ".join(f"{each}: {each}" for each in chosen)
        answer, shown = f"It is {chosen[3]} or {chosen[3] + 1}.", printed("\n".join(map(str, chosen)))
        started = time.thread_time()
        (first, second) = claims(answer, shown, code={1: "print(frame)"})
        assert (first.cell, second.cell) == (1, 0)
        for code in (f"print({{{pairs}}})", f"{names}\nprint(x)"):
            claims("It is 12.7.", shown, code={1: code}, given=[names])
        return time.thread_time() - started

    assert min(seconds(2**61 - 1) for _ in range(3)) < 3 * min(seconds(2**61 + 9) for _ in range(3))


def test_much_of_it_takes_no_time() -> None:
    """Ten megabytes of output, and an answer that is all numbers."""
    answer, shown = " ".join(str(1000 + each) for each in range(5000)), printed("123.456 " * 1_250_000)
    assert machine.within(300, lambda: claims(answer, shown))[MAX_CLAIMS:] == [REST]


def many(line: str, count: int) -> str:
    """A line so many times, each with its number."""
    return "\n".join(line.format(each) for each in range(count))


HOSTILE = {
    "names of one value": lambda n: {1: f"{'='.join(f'a{each}' for each in range(n))} = ({'1,' * n})\nprint(a0)"},
    "one list in many cells": lambda n: {cell: many("x.append({})", n // 20) + "\nprint(x)" for cell in range(20)},
    "functions in functions": lambda n: {
        1: "\n".join(f"{' ' * each}def f{each}():" for each in range(80)) + f"\n{' ' * 80}return 1, 2" * (n // 4)
    },
    "bytes that grow": lambda n: {1: f"print(b'x' * {n} * 10**10, b'%{n}000000000d' % 5, frame)"},
    "a long sum": lambda n: {1: f"print(frame.x{' + 7' * n})"},
    "lists in lists": lambda n: {1: "x = [1]\n" + "x = [x, x]\n" * (n // 20) + "print(x)"},
    "calls in calls": lambda n: {
        1: "def f0(): return 1\n"
        + "".join(f"def f{each + 1}(): return f{each}() + f{each}()\n" for each in range(n // 20))
        + f"print(f{n // 20}())"
    },
    "powers and widths": lambda n: {
        1: f"print(7**7**{n}, f'{{5:>{n}000000}}', round(5, -{n}00000000), '5'.zfill({n}000000))"
    },
    "literals that are nearly the same": lambda n: {
        1: f"print({','.join(str(6 * 10**8 + each) for each in range(n))})"
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_is_read_soon(name: str) -> None:
    """Its time grows with the code and what it shows, and no faster."""

    def seconds(size: int) -> float:
        code = HOSTILE[name](size)
        gc.collect()
        gc.disable()  # all that this process has made would be looked through again and again
        try:
            started = time.thread_time()
            claims("It is 4217.", {1: printed("1 billion " * size)[1] * 10}, code=code)
            return time.thread_time() - started
        finally:
            gc.enable()

    assert seconds(2_000) < 8 * seconds(500) + machine.pace()


MUCH = {
    "fractions": "from fractions import Fraction\nf = Fraction(3, 2)\nf = f**300\nf = f**300\nprint(f * f * f)",
    "a power of fractions": "from fractions import Fraction\nprint(2 ** Fraction(10**8))",
    "decimals": "from decimal import Decimal\nx = Decimal('1e10000000')\nprint('%d' % x, '{[0]:f}'.format([x]))",
    "a mean of decimals": "import decimal, statistics\nprint(statistics.mean([decimal.Decimal('1e1000000')]))",
    "a wide field": "print('{:x<9999999}'.format(1), f'{1:9999999}')",
    "a wide field with a name": "print('{a:9999999}'.format(a=1), '%(a)9999999d' % {'a': 1})",
    "many wide fields": "print(('{:999}' * 3000).format(*[1] * 3000), ('%999d' * 3000) % tuple([1] * 3000))",
    "bytes of numbers": "print((1).to_bytes(10**7), bytes(10**9), bytearray(10**9))",
    "indents": "import json\nprint(json.dumps([1], indent=10**7))",
    "texts by each other": "x = 'a' * 20000\nprint(x * x, x << x, x**x, x.join(x), x.replace('a', x))",
    "a text in a text": f"x = 'a' * 20000\nprint(f'{'{x}' * 3000}')",
    "lists of lists' items": "x = [1]\n" + "x = [*x, *x]\n" * 30 + "print(x)",
    "a list in itself": "x = [1]\n" + "x.extend(x)\n" * 30 + "print(x)",
    "a list that is asked for": "x = [1]\n" + "x = [*x, *x]\n" * 12 + "if x: pass\n" * 500,
    "empty lists": f"x = [{'[],' * 2500}]\n" + "x;" * 1500,
    "texts that add up": "import itertools\nprint(itertools.accumulate(list('😀' * 3000)), sum([[1]] * 15000, []))",
    "codecs": f"x = {''.join(map(chr, range(20000, 23000)))!r}\nprint(x.encode('punycode'))",
    "codecs of bytes": "print(str(b'ab' * 9000, 'punycode'), bytes('ü' * 9000, 'punycode'))",
    "a long text again and again": f"def f():\n    return '{'7123 ' * 1200}'\n{'f();' * 200}",
    "what a text may be": "x = 'a'\n"
    + "".join(f"if d.x: x = '{each}' * 19000\n" for each in "bcdefghijklm")
    + "x + x;" * 300,
    "whole numbers": "x = 7**1400\n"
    + "x * x * x % x; pow(x, x, x);" * 200
    + "print(7**7**7, 1 << 10**10, round(5, -(10**9)))",
    "many divisors": "import math\nprint(math.lcm(*range(1, 15000)), math.comb(10**9, 5 * 10**8))",
    "keys of one hash": "print(set(list(range(0, 19000 * (2**61 - 1), 2**61 - 1))))",
    "sorted again and again": "x = list(range(19000))\n" + "sorted(x);" * 600,
    "what is read again": "s = '7 ' * 9999\n" + "open('x', 'w').write(s); print(open('x').read())\n" * 100,
    "unknown methods": "x = '7 ' * 5000\n" + "x = x.foo()\n" * 40 + "print(x)",
    "ranges": "print(0.5 in range(10**9), sum(range(10**10)), list(zip(*[range(10**9)] * 100)), range(10**40))",
}
"""Cells that make much of little."""


_MEASURE = """
import json, resource, sys, time
from nbagent.agent.claims import claims
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
outputs = {1: [{"output_type": "stream", "name": "stdout", "text": "4217"}]}
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
claims("It is 4217.", outputs, code={1: "print(1)"})
for name, code in json.load(sys.stdin).items():
    before, started = peak(), time.process_time()
    claims("It is 4217.", outputs, code={1: code})
    print(json.dumps([name, time.process_time() - started, peak() - before]), flush=True)
"""


def test_much_is_made_of_little_within_bounds() -> None:
    """Each cell takes about a second and 50 megabytes at most: C code holds all threads of the controller."""
    command = [sys.executable, "-c", _MEASURE]
    done = subprocess.run(command, input=json.dumps(MUCH), capture_output=True, text=True, timeout=60, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.stderr, [name for name, *_ in found]) == ("", [*MUCH])
    assert [each for each in found if each[1] > 15 * machine.pace() + 0.5 or each[2] > 50] == []


def test_a_format_looks_into_no_object_of_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the host's environment says is not found out by what is held to be made up."""
    monkeypatch.setenv("SECRET", "48173")
    field = "{0.__add__.__globals__[sys].modules[os].environ[SECRET]}"
    for made in (f"'{field}'.format(Fraction(1, 2))", f"'{field}'.format_map({{'0': Fraction(1, 2)}})"):
        code = {1: f"from fractions import Fraction\nprint({made}, frame.height)"}
        assert claims("It is 48173.", printed("48173 3"), code=code)[0].supported


def test_no_line_switches_the_check_off() -> None:
    """A number that can't be read leaves the others what they are."""
    code = {1: "import decimal\nprint(4817.3)\nprint(decimal.Decimal('sNaN'), frame.height)"}
    assert not claims("It is 4817.3.", printed("4817.3 3"), code=code)[0].supported


def test_of_a_cell_that_fails_to_be_read_all_numbers_are_made_up(
    monkeypatch: pytest.MonkeyPatch, contained: list[str]
) -> None:
    """Whatever the fault is, the other cells are read as ever."""
    code = {1: "print(4817.3)", 2: "print(frame.height)"}
    run = Interpreter.run

    def fail(self: Interpreter, tree: ast.Module) -> None:
        run(self, tree)
        if "4817" in ast.unparse(tree):
            raise TypeError("a fault")

    monkeypatch.setattr(Interpreter, "run", fail)
    found = claims("They are 4817.3 and 52.", printed("4817.3", "52"), code=code)
    assert [each.supported for each in found] == [False, True]
    assert len(contained) == 1


def test_what_names_mean_is_held_once_for_all_cells() -> None:
    """The memory for many cells grows with their code, not with each cell's names times the cells."""
    code = {at: "".join(f"a{at}_{n}=1\n" for n in range(40)) for at in range(1, 201)}
    tracemalloc.start()
    try:
        claims("It is 4217.", {200: printed("4217")[1]}, code=code)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_what_is_not_looked_for_is_said() -> None:
    """A number behind very many others, or very much text, does not pass for one that an output shows."""
    shown = " ".join(str(1000 + each) for each in range(MAX_CLAIMS))
    assert [each.text for each in claims(f"{shown} 77777", printed(shown)) if not each.supported] == [REST.text]
    assert claims(f"{'a ' * MAX_ANSWER} 77777", printed("1")) == [REST]


def test_of_very_much_code_the_last_is_read() -> None:
    """Numbers in what comes before are no evidence."""
    code = {1: "x = 4217", 2: "# " + "a" * MAX_CODE, 3: "print(x)"}
    assert claims("It is 4217.", {1: printed("4217")[1]}, code=code) == [Claim("4217", written=True, sources=(1,))]


def test_code_that_was_written_to_be_read_costs_little() -> None:
    """However often a cell shows a long text, that is read once, and what stands behind it is still no evidence."""
    code = f"X = '{'7 ' * 45_000}'\nY = 0x{'f' * 5000}\nprint({'X, ' * 2_000}Y, 40)"
    too_long = "print(40)\n" + "[]\n" * 30_000
    for each in (code, too_long):
        found = machine.within(40, lambda each=each: claims("They are 40 and 41.", printed("40"), code={1: each}))
        assert [(claim.text, claim.supported) for claim in found] == [("40", False), ("41", False)]


@pytest.mark.parametrize(
    "names", [[f"a {each}" for each in range(20_000)], ["A " * each + "B" for each in range(1, 127)]]
)
def test_thousands_of_names_take_no_time(names: list[str]) -> None:
    """They are looked for in one pass: it was one for each name."""
    answer = (" ".join(names) if len(names) > 1_000 else "A " * 50_000)[:MAX_ANSWER]
    started = time.process_time()
    assert claims(answer, {}, names=names) == []
    assert time.process_time() - started < 50 * machine.pace() + 1


def test_empty_lines_are_read_once() -> None:
    """Whoever writes code can write very many of them."""
    code = {1: "\n" * 20_000 + "print(1)"}
    assert not machine.within(20, lambda: claims("It is 127.", printed("x"), code=code))[0].supported


@pytest.mark.parametrize(
    "answer",
    ["```" + " " * 20_000 + "\n" * 20_000, f"`{'1' * 40_000}=`", f"per 1{'0' * 40_000}5", "one-" * 10_000 + "a"],
)
def test_an_answer_is_read_in_one_pass(answer: str) -> None:
    """However long a fence, a number in backticks, one behind `per` or one in words is."""
    machine.within(6, lambda: claims(answer, printed("x"), given=["x"]))
