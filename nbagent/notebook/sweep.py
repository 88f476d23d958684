"""Other terms on which a notebook's cells run, to find what they depend on beside their code and data. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbagent.core import syntax

STABLE = "__nbagent_stable__"
"""What sorts are called by where they are made stable."""
_SORTS = frozenset(
    {"sort", "argsort", "sort_values", "sort_index", "argpartition", "partition", "nlargest", "nsmallest"}
)
_FEATURE = re.compile(r"[A-Z0-9_]{1,40}")

PROCESS = """
def main(beyond):
    import _thread, os
    ended = _thread.allocate_lock()
    ended.acquire()
    for _ in range(beyond):  # one after the other: a sandbox may have few at a time
        _thread.start_new_thread(ended.release, ())
        ended.acquire()
    return os.getpid()
"""
"""The number of the kernel's process; uses up so many numbers before, so that what is started later has others."""
RECOUNT = """
def main():
    from IPython import get_ipython
    shell = get_ipython()
    shell.execution_count = len(shell.history_manager.input_hist_raw)
"""
"""Gives the next cell the number behind that of the last one in `In`, whatever code has made of it."""
DISPATCH = """
def main():
    import sys
    if "numpy" not in sys.modules:
        return []
    from numpy._core._multiarray_umath import __cpu_dispatch__ as known, __cpu_features__ as found
    return [name for name in known if found.get(name)]
"""
"""Names NumPy's own for the instructions that it chooses its code by here, if the notebook uses it."""
PRELUDE = f"""
def main():
    import builtins, functools, sys
    def stable(function):
        @functools.wraps(function)
        def run(*args, kind=None, **more):
            return function(*args, kind="stable", **more)
        return run
    def sorter(value, name):
        method = getattr(value, name)
        owner = type(value).__module__.partition(".")[0]
        if owner not in ("numpy", "pandas", "builtins") or isinstance(value, (list, dict)):
            return method
        if owner == "builtins" and getattr(value, "__name__", "") != "numpy":
            return method
        if name in ("argpartition", "partition"):
            name, method = name.replace("partition", "sort"), getattr(value, name.replace("partition", "sort"))
            keep = 1 if owner == "builtins" else 0
            return lambda *args, **more: method(*args[:keep], kind="stable")
        if name in ("nlargest", "nsmallest") or owner == "pandas" and name.startswith("sort_"):
            return method
        return stable(method)
    setattr(builtins, {STABLE!r}, sorter)
    import numpy as np
    np.argsort, np.sort = stable(np.argsort), stable(np.sort)
    try:
        import pandas as pd
    except ImportError:
        return True
    for owner in (pd.Series, pd.DataFrame):
        owner.sort_values, owner.sort_index = stable(owner.sort_values), stable(owner.sort_index)
    return True
"""
"""Makes sorts stable in a kernel: those of NumPy and pandas, and those of arrays that a cell calls by `STABLE`."""


PAST = """
def main(moments):
    import ctypes, datetime, gc, random, time, timeit
    from IPython import get_ipython
    behind, begun, chance, looks = [0.0], iter(moments), random.Random(), 0
    def uneven(name):  # makes a clock run up to half as fast again as it should, and never twice alike
        read = getattr(time, name + "_ns")
        last, ahead = read(), 0
        def tell():
            nonlocal last, ahead, looks
            now, looks = read(), looks + 1
            ahead += int((now - last) * chance.random() / 2) + chance.randrange(5_000_000 if looks < 100 else 50_000)
            last = now
            return now + ahead
        setattr(time, name + "_ns", tell)
        setattr(time, name, lambda: tell() / 1e9)
    for name in ("time", "perf_counter", "process_time", "thread_time"):  # not the one by which others wait
        uneven(name)
    timeit.default_timer, clock = time.perf_counter, time.time
    def set_clock(*_):
        nonlocal looks
        looks = 0
        if (at := next(begun, None)) is not None:
            behind[0] = clock() - at
    def told(function, now, place=0):  # where it is given no moment, or None, that is the one that `now` tells
        def tell(*given):
            return function(*given) if given[place:] not in ((), (None,)) else function(*given[:place], now())
        return tell
    time.time, time.time_ns = lambda: clock() - behind[0], lambda: int(time.time() * 1e9)
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, told(getattr(time, name), time.time))
    time.asctime, time.strftime = told(time.asctime, time.localtime), told(time.strftime, time.localtime, 1)
    names = gc.get_referents(datetime.datetime.__dict__)[0]  # no type that is written in C lets itself be changed
    names["now"] = classmethod(lambda cls, tz=None: cls.fromtimestamp(time.time(), tz))
    names["utcnow"] = classmethod(lambda cls: cls.now(datetime.timezone.utc).replace(tzinfo=None))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))
    get_ipython().events.register("pre_run_cell", set_clock)
    return True
"""
"""Has Python's clock show the moments of a former run, given when each of its cells began, in seconds since the epoch.

Between two looks at a clock a random time passes beside the true one, so that what shows how long something took
differs in any two such runs, also where true times are as short as a clock's tick or rounded to milliseconds.
"""


@dataclass(frozen=True)
class Terms:
    """What is different in a run.

    Attributes:
        name: What cells that differ then depend on.
        variables: Of the kernel's environment.
        sorts: Whether an unstable sort may be the cause.
    """

    name: str
    variables: Sequence[tuple[str, str]]
    sorts: bool = False


OTHER_HASHES = Terms("the seed of Python's hashes", (("PYTHONHASHSEED", "1"),))


def terms(features: Iterable[str]) -> list[Terms]:
    """The terms of a sweep.

    Args:
        features: The processor's instructions by NumPy's names, as the kernel says.
    """
    plain = [each for each in features if isinstance(each, str) and _FEATURE.fullmatch(each)]
    threads = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
    found = [
        OTHER_HASHES,
        Terms(
            "the number of threads", (*((f"{each}_NUM_THREADS", "1") for each in threads), ("POLARS_MAX_THREADS", "1"))
        ),
        Terms("the locale", (("LC_ALL", "tr_TR.UTF-8"), ("LANG", "tr_TR.UTF-8"))),
        Terms("the time zone", (("TZ", "Asia/Kathmandu"),)),
    ]
    if plain:
        cpu = Terms("the processor's vector instructions", (("NPY_DISABLE_CPU_FEATURES", " ".join(plain)),), sorts=True)
        found.insert(0, cpu)
    return found


def with_stable_sorts(code: str) -> str:
    """A cell's code with its sorts called by `STABLE`; as it is if it isn't plain Python."""
    try:
        return ast.unparse(ast.fix_missing_locations(_Sorts().visit(syntax.parse(code))))
    except syntax.UNREADABLE:
        return code


class _Sorts(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace `x.sort(…)` by `STABLE(x, 'sort')(…)`."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SORTS:
            name = ast.Name(id=STABLE, ctx=ast.Load())
            node.func = ast.Call(func=name, args=[node.func.value, ast.Constant(node.func.attr)], keywords=[])
        return node
