"""Python of others is read within bounds: neither memory nor the process ends by it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

import pytest

from nbagent.core import syntax

MEASURED = """
import resource, sys
from nbagent.core import syntax
code = eval(sys.stdin.read())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    syntax.parse(code)
except syntax.UNREADABLE as error:
    print(type(error).__name__, end=" ")
print(syntax.compiles(code), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def measured(code: str) -> list[str]:
    """What becomes of code, an expression of Python's, in a process of its own, and the MB that it took."""
    done = subprocess.run([sys.executable, "-c", MEASURED], input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the process ended with {done.returncode}: {done.stderr[-500:]}"
    return done.stdout.split()


@pytest.mark.parametrize(
    "code",
    [
        "'[' + '0,' * 2_000_000 + ']'",
        "'a\\n' * 1_000_000",
        "'(a ' + 'for a in b ' * 50_000 + ')'",  # Python 3.11 to 3.14 end with a segmentation fault if they compile it
        "'f\"' + '{a}' * 100_000 + '\"'",
        "'try:\\n pass\\nexcept a:pass\\n' * 100_000",
    ],
)
def test_code_that_is_too_long_is_not_read(code: str) -> None:
    """It is refused as if it were no Python, without memory and whatever Python's compiler would do with it."""
    kind, compiles, grown = measured(code)
    assert (kind, compiles) == ("SyntaxError", "False")
    assert int(grown) <= 50


@pytest.mark.parametrize("code", ["'a\\n' * 24_000", "'(a ' + 'for a in b ' * 12_000 + ')'", "'a<b\\n' * 12_000"])
def test_the_longest_that_is_read_takes_little_memory(code: str) -> None:
    """And doesn't end the process."""
    assert int(measured(code)[-1]) <= 120


@pytest.mark.parametrize("code", ["(" * 300, "-" * 20_000 + "1", "a" + ".b" * 20_000, "\0", "\ud800", "def f(:"])
def test_hostile_code_raises_what_is_unreadable(code: str) -> None:
    """One of a few errors, each of which is caught where code is read."""
    with pytest.raises(syntax.UNREADABLE):
        syntax.parse(code)
    assert not syntax.compiles(code)


@pytest.mark.parametrize(
    "letters", ["a" + "\u0301" * 10_000 + "\uff9e" * 10_000, ("a" + "\u0301" * 2_000 + "\uff9e" * 2_000) * 20]
)
def test_marks_on_a_letter_are_sorted_in_a_moment(letters: str) -> None:
    """Python sorts them in squared time, in which no other thread runs: 50 KB of a name took 3 s, 340 KB minutes."""
    started = time.process_time()
    for code in (f"{letters} = 1", f"x.{letters}", f"def f({letters}): pass"):
        with contextlib.suppress(SyntaxError):
            syntax.parse(code)
        syntax.compiles(code)
    assert time.process_time() - started < 3


def test_marks_in_text_are_read() -> None:
    """Lines that are drawn, faces, and letters of any language, with the marks that people put on them."""
    line, letters = "\u2500" * 200 + "\U0001f600" * 150, "n\u0303" * 500
    assert syntax.parse(f'# {line}\nx = """{line}\n{line}"""\ne\u0301te\u0301 = "{letters}"').body


def test_what_is_read() -> None:
    """Python; a cell's `await` only where it is asked for; warnings are the kernel's to give."""
    assert len(syntax.parse("x = 1\ny = '\\d'").body) == 2
    assert syntax.parse("await f()", awaits=True).body
    assert syntax.compiles("x = 1")
    assert not syntax.compiles("await f()")
