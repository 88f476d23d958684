"""Which programs a cell starts, by IPython's syntax and by the usual ways of Python."""

from __future__ import annotations

import pytest
from ipykernel.zmqshell import KernelMagics
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from nbagent.safety import programs as module
from nbagent.safety.programs import PYTHON, programs


@pytest.mark.parametrize(
    ("code", "commands"),
    [
        ("!ls -l", ["ls -l"]),
        ("  !a\n  !b", ["a", "b"]),
        ("files = !ls /tmp", ["ls /tmp"]),
        ("a.b = !ls", ["ls"]),
        ("x[0] = %sx ls", ["ls"]),
        ("!!ls", ["ls"]),
        ("%%!\nls", ["ls"]),
        ("\f!ls", ["ls"]),
        ("!ls \\\n ; rm -rf /", ["ls   ; rm -rf /"]),
        ("%%bash\nls\nrm x", ["%%bash\nls\nrm x"]),
        ("%%script sh -c x\nls", ["%%script sh -c x\nls"]),
        ("%%perl\nx", ["%%perl\nx"]),
        ("%alias foo rm", ["%alias foo rm"]),
        ("%conda install x", ["%conda install x"]),
        ("%run x.ipy", ["%run x.ipy"]),
        ("%time !ls", ["ls"]),
        ("%timeit -n 10 !ls", ["ls"]),
        ("%%time\n!ls", ["ls"]),
        ("%%capture out\n%%bash\nls", ["%%bash\nls"]),
        ("rm -rf x", ["rm -rf x"]),
        ("ls", ["ls"]),
        ("sx ls", ["ls"]),
        ("time !ls", ["ls"]),
        ("run x.ipy", ["%run x.ipy"]),
        (",rm -x", ['rm("-x")']),
        (";system ls", ['("ls")']),
        ("ls%x", ["ls%x"]),
    ],
)
def test_only_programs(code: str, commands: list[str]) -> None:
    """A cell that does nothing else; magics that run code are looked into, as are lines that go on on the next one."""
    found = programs(code)
    assert (list(found.commands), found.more) == (commands, False)


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.system('ls')",
        "import os as o\no.system('ls')",
        "from os import popen",
        "from os import *",
        "from asyncio import create_subprocess_shell as run",
        "from asyncio.subprocess import create_subprocess_exec",
        "import subprocess",
        "from subprocess import run",
        "subprocess.run(['ls'])",
        "f = os.system",
        "f = subprocess.run",
        "__import__('os').system('ls')",
        "__import__('subprocess')",
        "import importlib\nimportlib.import_module('pty')",
        "getattr(os, 'system')('ls')",
        "await asyncio.create_subprocess_exec('ls')",
        ";os.system ls",
        "exec('import subprocess')",
        "exec(code)",
        "get_ipython().run_cell('!ls')",
        "get_ipython().run_line_magic(name, 'ls')",
        "from IPython import get_ipython as g\ng().system('ls')",
        "%time import subprocess",
    ],
)
def test_programs_by_python(code: str) -> None:
    """Are found where they are called plainly, imported, or named; what runs other code counts too."""
    assert programs(code).commands
    assert all(each.startswith(PYTHON) for each in programs(code).commands)


@pytest.mark.parametrize(
    "code",
    ["def f(:", "1\x0b!ls", "1\u2028!ls", "(" * 10_000, "%x\n" + "x" * 60_000, "\0", "," * 20_000, ",\n" * 1_200],
)
def test_what_cannot_be_read(code: str) -> None:
    """Is taken for a program: the kernel may read it otherwise."""
    assert programs(code).commands == (PYTHON + code,)


def test_every_magic_is_known() -> None:
    """Of those that a kernel has from the start, since one may stand without its `%`."""
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    shell.register_magics(KernelMagics)
    known = module._HARMLESS | module._OF_CODE | module._OF_SHELL | module._OTHERS | module._ALIASES
    assert set(shell.magics_manager.magics["line"]) <= known


@pytest.mark.parametrize(
    "code",
    [
        "1 + 1",
        "",
        "a != b",
        "print('!x')",
        "text = '''\n!ls\n'''",
        "x = (5\n%ls)",
        "await f()",
        "platform.system()",
        "df.system",
        "df.eval('a + b')",
        "cursor.execute('select 1')",
        "'\\d'",
        "rm = 3",
        "ls == 3",
        "%matplotlib inline\nplt.plot([1])",
        "%pip install polars",
        "%%time\nf()",
        "%env X=1",
        "x?",
        "exec('x = 1')",
        ">>> 1 + 1",
        "%%writefile /tmp/x.sh\n!ls",
    ],
)
def test_no_programs(code: str) -> None:
    """Plain Python, and magics that start none."""
    assert programs(code).commands == ()
