"""What it costs to read code that was written to cost much: time and memory grow with the code, and no faster."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal

import machine
import pytest

from nbagent.agent.made_up.literals import Literals

LENGTH = 12_000
"""Characters of code: a fourth of what 100 MB and a second or two are enough for."""
MEMORY = 30_000_000
"""Bytes that reading it may take at a time."""
PACES = 10
"""Of processor time that reading it may take."""
PARTS = {
    "parameters": ("def f(", "a{}=12345,", "): pass\n", "f()\n"),
    "keywords": ("def f(**k): return k\ndef g(): return f(", "a{}=12345,", ")\n", "L.append(g())\n"),
    "arguments": ("def f(*k): return k\ndef g(): return f(", "{},", ")\n", "L.append(g())\n"),
    "captures": ("def f():\n match 12345:\n  case [", "a{},", "]: pass\n", "f()\n"),
    "fields": ("class C:\n", "  a{}=1\n", "", "L.append(C())\n"),
    "annotated": ("class C:\n", "  a{}:int\n", "", "L.append(C(1))\n"),
    "methods": ("class C:\n", "  def a{}(s): pass\n", "", "L.append(C())\n"),
    "globals": ("def f():\n global ", "a{},", "b\n", "f()\n"),
    "targets": ("def f():\n ", "a{},", "=1234,5\n", "f()\n"),
    "chained": ("def f():\n ", "a{}=", "12345\n", "f()\n"),
    "conditions": ("def f():\n x = [12345]\n if d:\n  ", "a{}=", "x\n", "f()\n"),
    "names": ("a", "a", "=12345\ndef f():\n global a\n", "L.append(len(str(1)))\nf()\n"),
    "long parameters": ("def f(a", "a", "=12345): pass\n", "f()\n"),
    "long attributes": ("def f(): return d.a", "a", "(1)\n", "f()\n"),
    "paths": ("import numpy as x\ndef f(y): return y.a", "a", "\n", "x=f(x)\nL.append(x)\n"),
    "joined": ("def f(): return [", "{},", "]\nX=f()\n", "L.append(max(X, default=d))\n"),
    "copies": ("X=[", "{},", "]\n", "L.append(X+X)\n"),
    "slices": ("X=[", "{},", "]\n", "L.append(X[1:])\n"),
    "lists": ("X=[", "{},", "]\n", "L.append(list(X))\n"),
    "dictionaries": ("X={{", "{}:1,", "}}\n", "L.append(dict(X))\n"),
    "unpacked": ("X={{", "{}:1,", "}}\n", "L.append({{**X}})\n"),
    "items": ("X={{", "{}:1,", "}}\n", "L.append(X.items())\n"),
    "ranges": ("X=range(", "0+", "998)\n", "L.append([*X])\n"),
    "characters": ("X='", "7", "'[:999]\n", "L.append([*X])\n"),
    "doubled": ("X=[1]\nY=[X,", "X,", "]\n", "Y=Y+Y\n"),
    "extended": ("X=[1]\nY=[X,", "X,", "]\n", "Y.extend(Y)\n"),
    "yields": ("X=[", "{},", "]\ndef g():\n yield 1\n return X\n", "L.append(g())\n"),
    "zips": ("def g(): return zip(range(900),", "d,", ")\n", "L.append(g())\n"),
    "lines": ("def g(): print(", "X,", "sep=X)\nX='\U0001f600'*9999\n", "g()\n"),
    "conditions of queries": ("X='''select x where ", "a='1' ", "having'''\n", "d.f(X)\n"),
    "modules": ("open('m.py','w').write('''", "a{}=1\n", "''')\n", "import m as a{}\n"),
    "executed": ("X='''def f(): return [", "1,", "]\nL.append(f)'''\n", "exec(X)\n"),
    "JSON": ("import json\nX='[", "1,", "1]'\n", "L.append(json.loads(X))\n"),
    "numbers": ("x=0x", "f", "\nx=x%2**4096\n", "y=x if d else 7\nL.append(-y)\n"),
    "digits": ("X='''", "{},", "'''\n", "L.append(X.strip())\n"),
    "deep": ("x=[12345]\n", "x=[x]\n", "", "L.append(x)\nd.f(x)\n"),
    "in conditions": ("if d:\n x=", "x if d.a{} else ", "1\n", "L.append(x)\n"),
    "defaults": ("def h():\n def f(", "a{}=1,", "): pass\n return f\n", "L.append(h())\n"),
    "handlers": ("def f():\n try: x=[", "{},", "]\n except E as e: L.append(e)\n", "f()\n"),
    "sums": ("", "a{}=[12345]\n", "X=[]\n", "X=X+a1\nL.append(X)\n"),
    "lambdas": ("X=lambda ", "a{}=12345,", "b=1: a1\n", "L.append(X())\n"),
    "comprehended": ("X=[", "{},", "]\n", "L.append([x for x in X])\nL.append({{x: x for x in X}})\n"),
    "formatted": ("def f(): return f'", "{{d}}{}", "'\n", "L.append(f())\n"),
    "compared": ("def f(): return d.x in (", "{},", ")\n", "f()\n"),
    "thrown": ("def f():\n raise E(", "{},", ")\n", "f()\n"),
    "stars": ("X=[", "{},", "]\n", "a,*b=X\nL.append(b)\n"),
    "updated": ("X={{", "{}:1,", "}}\n", "L.append({{}})\nL[-1].update(X)\n"),
    "reduced": ("import functools\nX=[", "{},", "]\n", "L.append(functools.reduce(lambda x,y: [x,y], X))\n"),
    "mapped": ("X=[", "{},", "]\n", "L.append(map(lambda x: [x], X))\n"),
}  # fmt: skip
"""For each kind of part, what is before it, the part, what is behind it, and what uses all of them."""


def program(kind: str, length: int = LENGTH, *, parts: float = 0.5) -> str:
    """Code with very many of a part, and very many uses of all of them."""
    before, part, after, use = PARTS[kind]
    before, after = before.replace("{{", "{").replace("}}", "}"), after.replace("{{", "{").replace("}}", "}")
    code = "L=[]\n" + before
    numbers = iter(range(length))
    while len(code) < length * parts:
        code += "".join(part.format(next(numbers)) for _ in range(20))
    code += after
    use = use.replace("{{", "{").replace("}}", "}")
    return code + "".join(use.replace("{}", str(at)) for at in range((length - len(code)) // len(use)))


def read(code: str) -> None:
    """Read code, for an answer that makes its reader look at all of it."""
    literals = Literals({1: code}, told={Decimal(1)})
    literals.shown(1)
    literals.parameters(set(), set())


def memory(code: str) -> int:
    """The bytes that reading code takes at most."""
    tracemalloc.start()
    try:
        read(code)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", PARTS)
def test_many_uses_of_many_parts_cost_little(kind: str) -> None:
    """What is made or kept for each takes steps, of which code has as many as it is long."""
    code = program(kind)
    machine.within(PACES, lambda: read(code))
    assert memory(code) < MEMORY


def test_a_list_that_is_doubled_again_and_again_costs_little() -> None:
    """However few characters it takes."""
    code = "y=[1]\nx=[y]\n" + "x=x+x\n" * 40
    machine.within(PACES, lambda: read(code))
    assert memory(code) < MEMORY
