"""Programs that people run notebooks with, over the installed kernelspecs: none of them knows nbagent."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import papermill
import pytest
from nbformat import NotebookNode
from packages.index import Index

Run = Callable[..., subprocess.CompletedProcess[str]]
CODE = (
    "x = 20\nx + 22",
    "import os\nprint(sorted(os.listdir('/tmp/data')), os.getuid() != 0)",
    "import polars\npolars.read_csv('/tmp/data/numbers.csv')['a'].sum()",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
)


@pytest.fixture(autouse=True)
def _nothing_is_left(leftovers: Callable[[], list[str]]) -> Any:
    """Each client's kernel is gone with the client."""
    before = leftovers()
    yield
    assert leftovers() == before


def notebook(kernel_name: str, *codes: str) -> NotebookNode:
    """A notebook with these cells, for this kernel."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in codes])
    made.metadata.kernelspec = {"name": kernel_name, "display_name": kernel_name, "language": "python"}
    return made


def text(cell: NotebookNode) -> str:
    """What a cell printed and its result, as text."""
    return "".join(each.get("text") or each.get("data", {}).get("text/plain", "") for each in cell.outputs)


def check(executed: NotebookNode) -> None:
    """The results of `CODE`."""
    cells = executed.cells
    assert text(cells[0]) == "42"
    assert "numbers.csv" in text(cells[1])
    assert "True" in text(cells[1])
    assert text(cells[2]) == "3"
    assert any("image/png" in each.get("data", {}) for each in cells[3].outputs)


def test_nbconvert(kernel_name: str, folder: Path, jupyter: Run) -> None:
    """`jupyter nbconvert --execute` runs a notebook, and shows it the folder that it lies in."""
    nbformat.write(notebook(kernel_name, *CODE), folder / "in.ipynb")
    done = jupyter("nbconvert", "--to", "notebook", "--execute", "in.ipynb", "--output", "out.ipynb")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    check(nbformat.read(folder / "out.ipynb", as_version=4))


def test_nbconvert_with_an_error(kernel_name: str, folder: Path, jupyter: Run) -> None:
    """A cell's error ends the program with it, and the kernel is gone."""
    nbformat.write(notebook(kernel_name, "1 / 0"), folder / "in.ipynb")
    done = jupyter("nbconvert", "--to", "notebook", "--execute", "in.ipynb")
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr


def test_papermill(kernel_name: str, folder: Path) -> None:
    """Papermill hands parameters over and runs."""
    made = notebook(kernel_name, "n = 1", "n * 6", *CODE)
    made.cells[0].metadata.tags = ["parameters"]
    nbformat.write(made, folder / "in.ipynb")
    papermill.execute_notebook("in.ipynb", "out.ipynb", parameters={"n": 7}, progress_bar=False)
    executed = nbformat.read(folder / "out.ipynb", as_version=4)
    assert text(executed.cells[2]) == "42"
    executed.cells = executed.cells[3:]
    check(executed)


async def test_nbclient(kernel_name: str) -> None:
    """Nbclient runs all cells in one kernel."""
    made = notebook(kernel_name, *CODE)
    check(await nbclient.NotebookClient(made, timeout=60, kernel_name=kernel_name).async_execute())


async def test_nbclient_stops_what_takes_too_long(kernel_name: str) -> None:
    """Its timeout interrupts the cell by a message, and the next cell runs with the variables."""
    made = notebook(kernel_name, "import time; kept = 1; time.sleep(100)", "kept")
    client = nbclient.NotebookClient(
        made, timeout=1, interrupt_on_timeout=True, allow_errors=True, kernel_name=kernel_name
    )
    executed = await client.async_execute()
    assert "KeyboardInterrupt" in str(executed.cells[0].outputs)


async def test_nbclient_notices_a_death(kernel_name: str) -> None:
    """A kernel that ends amid a cell is an error at once, not a wait for the timeout."""
    client = nbclient.NotebookClient(notebook(kernel_name, "import os; os._exit(1)"), timeout=60)
    with pytest.raises(nbclient.exceptions.DeadKernelError):
        await client.async_execute()


async def test_packages_come_as_in_a_session(kernel_name: str, packages: Index) -> None:
    """By a PEP 723 block, and where a cell misses a module: it goes on, with the same number, and says what came."""
    for name in ("declared", "wanted", "late", "jinja2"):
        packages.add(name, "1.5")
    made = notebook(
        kernel_name,
        "# /// script\n# requires-python = '>=3.11'\n# dependencies = ['declared>=1']\n# ///",
        "import declared; declared.version",
        "print('once')\nimport wanted\nlen([each for each in In if 'once' in each]), wanted.version",
        "for _ in range(2):\n    print('twice')\n    import late\nlate.version",
        "%pip install missing-everywhere",
        "try:\n    import optional_here\nexcept ImportError:\n    print('without')",
        "import missing_everywhere",
        "class Odd:\n    def __repr__(self): raise ValueError\nraise AttributeError(Odd())",
        "import importlib.util\nif not importlib.util.find_spec('jinja2'):\n"
        "    raise AttributeError(\"The '.style' accessor requires jinja2\")\n'styled'",
        "None.upper()",
    )
    executed = await nbclient.NotebookClient(made, timeout=60, allow_errors=True).async_execute()
    said = [text(cell) for cell in executed.cells]
    assert said[:2] == ["nbagent: Installed declared 1.5.", "'1.5'"]
    assert said[2] == "once\nnbagent: Installed wanted 1.5.(1, '1.5')"
    assert executed.cells[2].outputs[-1].execution_count == 2
    assert said[3] == "nbagent: Installed late 1.5.twice\ntwice\n'1.5'"
    assert "nbagent: Not installed" in said[4]
    assert said[5] == "without\n"
    assert executed.cells[6].outputs[0].ename == "ModuleNotFoundError"
    assert "nbagent: Not installed: There is no distribution called missing-everywhere" in said[6]
    assert said[8] == "nbagent: Installed jinja2 1.5.'styled'"
    assert [each.get("evalue") for each in executed.cells[9].outputs] == ["'NoneType' object has no attribute 'upper'"]


async def test_a_cell_says_what_it_ran_into(kernel_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That there is no network, and that a program was killed for the sandbox's memory; Plotly's figures are seen."""
    monkeypatch.setenv("NBAGENT_MEMORY_MB", "256")
    made = notebook(
        kernel_name,
        "import urllib.request\nurllib.request.urlopen('https://example.org/')",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'bytearray(10**9)']).returncode",
        "import os\nos.environ['PLOTLY_RENDERER']",
        "!curl() { return 6; }; curl -s https://example.org  # it says nothing then",
    )
    executed = await nbclient.NotebookClient(made, timeout=60, allow_errors=True).async_execute()
    said = [text(cell) for cell in executed.cells]
    assert "nbagent: this sandbox has no network." in said[0]
    assert "-9" in said[1]
    assert "nbagent: a program of this cell was killed: the sandbox ran out of memory (limit 256 MB)." in said[1]
    assert said[2] == "'plotly_mimetype+notebook'"
    assert "nbagent: this sandbox has no network." in said[3]


async def test_the_folder_is_read_only(kernel_name: str, folder: Path) -> None:
    """A notebook can read what lies beside it, and change nothing of it."""
    made = notebook(kernel_name, "open('/tmp/data/numbers.csv', 'a')", "open('/tmp/data/new', 'w')")
    executed = await nbclient.NotebookClient(made, timeout=60, allow_errors=True).async_execute()
    for cell in executed.cells:
        assert cell.outputs[0].ename in ("OSError", "PermissionError")
    assert [each.name for each in folder.iterdir()] == ["numbers.csv"]


async def test_the_home_is_not_shown(kernel_name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is started in the home folder shows nothing of it."""
    (home / "home" / "key").write_text("secret")
    monkeypatch.chdir(home / "home")
    made = notebook(kernel_name, "import os; os.listdir('/tmp/data')")
    executed = await nbclient.NotebookClient(made, timeout=60).async_execute()
    assert text(executed.cells[0]) == "[]"


async def test_a_cloned_repository_reads_nothing_of_the_person_s(kernel_name: str, folder: Path) -> None:
    """Links that lead out of the folder are not there, and the first cell says so; dot-entries are hidden at depth."""
    secret = folder.parent / ".ssh"
    secret.mkdir()
    (secret / "id").write_text("key")
    (folder / "sub" / ".git").mkdir(parents=True)
    (folder / ".env").write_text("key")
    (folder / "sub" / ".env").write_text("key")
    for at, to in {"figures": "../.ssh", "data.csv": "../.ssh/id", "rootfs": "/", "same.csv": "numbers.csv"}.items():
        (folder / at).symlink_to(to)
    look = "import os; sorted(os.path.join(at, each)[10:] for at, _, names in os.walk('/tmp/data') for each in names)"
    made = notebook(kernel_name, look, "open('/tmp/data/same.csv').read()")
    executed = await nbclient.NotebookClient(made, timeout=60).async_execute()
    told, found = executed.cells[0].outputs
    assert (told.name, told.text) == (
        "stderr",
        "nbagent: Not shown in /tmp/data: links that lead out of the data, or to what is not shown "
        "(data.csv, figures, rootfs).\n",
    )
    assert found.data["text/plain"] == "['numbers.csv', 'same.csv']"
    assert text(executed.cells[1]) == "'a\\n1\\n2\\n'"


def test_the_level_is_the_person_s(kernel_name: str, monkeypatch: pytest.MonkeyPatch, jupyter: Run) -> None:
    """`NBAGENT_TRUST` decides for any client."""
    monkeypatch.setenv("NBAGENT_TRUST", "sandboxed")
    code = "import subprocess\ntry:\n    subprocess.run(['true'])\nexcept OSError as error:\n    print(error.errno)\n"
    done = jupyter("jupyter_client.runapp", "--kernel", kernel_name, given=code)
    assert done.stdout.strip() == "1", done.stderr


def test_jupyter_run(kernel_name: str, folder: Path, jupyter: Run) -> None:
    """`jupyter run` ends its kernel only when Python ends, and even so nothing is left and nothing is complained."""
    (folder / "script.py").write_text("import os\nprint(6 * 7, os.path.exists('/tmp/data/script.py'))")
    done = jupyter("jupyter_client.runapp", "--kernel", kernel_name, "script.py")
    assert (done.returncode, done.stdout) == (0, "42 True\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_jupyter_console(kernel_name: str, jupyter: Run) -> None:
    """`jupyter console` starts a kernel, shows results and errors, and ends it."""
    given = "x = 20\nx + 22\nprint('from inside')\n1/0\nlen?\nexit\n"
    done = jupyter("jupyter_console", "--simple-prompt", "--kernel", kernel_name, given=given)
    assert done.returncode == 0, done.stderr
    assert "Out[2]: 42" in done.stdout
    assert "from inside" in done.stdout
    assert "ZeroDivisionError" in done.stdout + done.stderr
    assert "Shutting down kernel" in done.stdout


def test_kernelspecs_are_listed(kernel_name: str, jupyter: Run) -> None:
    """Jupyter finds both kernels with their icon, and never one without isolation."""
    done = jupyter("jupyter_client.kernelspecapp", "list", "--json")
    found = json.loads(done.stdout)["kernelspecs"]
    icons = {each.name for each in Path(found[kernel_name]["resource_dir"]).glob("logo-*")}
    assert icons == {"logo-svg.svg", "logo-32x32.png", "logo-64x64.png"}
    assert "nbagent-local" not in found
