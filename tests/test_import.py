"""What imports cost: nbagent is installed into environments that belong to somebody else."""

from __future__ import annotations

import graphlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import grimp
import pytest

import nbagent

HEAVY = {
    *("langchain", "langchain_core", "langgraph", "langchain_openai", "openai", "anthropic", "pydantic", "httpx"),
    *("polars", "pandas", "numpy", "matplotlib", "PIL"),
    *("jupyter_client", "jupyter_core", "nbformat", "IPython", "ipykernel", "zmq", "tornado", "traitlets"),
    *("docker", "requests", "rich", "msgspec", "asyncio", "structlog", "opentelemetry"),
}


def modules(code: str, *words: str) -> set[str]:
    """The top-level modules that a fresh Python has imported after the code."""
    return {name.partition(".")[0] for name in every_module(code, *words)}


def every_module(code: str, *words: str) -> set[str]:
    """All modules that a fresh Python has imported after the code."""
    report = (
        "import atexit, json, sys\natexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))"
    )
    command = [sys.executable, "-c", f"{report}\n{code}", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    names: Any = json.loads(ran.stderr.splitlines()[-1])
    return set(names)


def test_importing_nbagent_imports_nothing_heavy() -> None:
    """`import nbagent` costs next to nothing."""
    assert modules("import nbagent") & (HEAVY | {"typer", "click"}) == set()


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"], ["exec", "-h"]], ids=" ".join)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    """Help and the version are there before anything that a session needs is imported."""
    found = modules("from nbagent.faces.cli.app import main; main()", *words)
    assert "typer" in found
    # Newer versions of Typer read a command's options with pydantic.
    own = {"asyncio", "msgspec"} | ({"pydantic"} if len(words) > 1 else set())
    assert found & (HEAVY - own) == set()


def test_an_export_waits_for_no_library_of_notebooks(tmp_path: Path) -> None:
    """Nbformat brings jsonschema, which makes a grammar of addresses when it is imported, for most of a second."""
    export = "from nbagent.notebook.export import write; from nbagent.notebook.record import Recording"
    write = "from pathlib import Path; write(Recording(), Path(sys.argv[1]))"
    found = modules(f"import sys; {export}; {write}", str(tmp_path / "a.ipynb"))
    assert found & {"nbformat", "jsonschema", "rfc3987_syntax"} == set()
    assert (tmp_path / "a.ipynb").exists()


def test_a_session_is_made_without_a_model() -> None:
    """Running cells needs neither LangChain nor, on the host, Polars; nor does it log or trace unless asked."""
    start = "import nbagent.session.startup, nbagent.session.conversation"
    found = modules(f"from nbagent import Session; Session(engine='bubblewrap', mcp=False); {start}")
    unwanted = "langchain langchain_core langgraph openai polars pandas matplotlib IPython structlog opentelemetry"
    assert found & set(unwanted.split()) == set()


@pytest.mark.parametrize("name", ["Session", "attach"])
def test_the_doors_import_only_what_says_what_they_are(name: str) -> None:
    """What a session is made of, and what its owner needs, comes when one is made; Jupyter's client with the kernel."""
    found = every_module(f"from nbagent import {name}")
    assert {each.partition(".")[0] for each in found} & (HEAVY - {"asyncio", "msgspec"}) == set()
    rooms = (
        "agent",
        "audit",
        "egress",
        "faces",
        "forge",
        "mcp",
        "notebook",
        "packages",
        "sandbox",
        "state",
        "telemetry",
    )
    own = [each for each in found if each.startswith("nbagent.")]
    assert [each for each in own if each.split(".")[1] in rooms] == []
    assert [each for each in own if each.startswith("nbagent.kernel.")] == []


def test_the_agent_is_imported_in_silence() -> None:
    """A person who asks a question sees no warning of the libraries that nbagent is made of."""
    command = [sys.executable, "-c", "import nbagent.agent.build, nbagent.state.sqlite"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


def test_who_only_looks_at_sessions_keeps_the_warnings_filters() -> None:
    """What filters warnings there is other people's business; the agent ignores one warning, of one package."""
    code = "import warnings; before = list(warnings.filters); import nbagent, nbagent.kernel.kernel; nbagent.attach; "
    code += "nbagent.SessionManager; assert warnings.filters == before, warnings.filters"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there() -> None:
    """Each name of the public surface can be imported and is listed; another one is an AttributeError."""
    for name in nbagent.__all__:
        assert getattr(nbagent, name) is not None
        assert name in dir(nbagent)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = nbagent.Nothing


def test_no_module_has_side_effects_on_the_disk(tmp_path: Path) -> None:
    """Importing the session and the command line writes nothing to the person's folders."""
    folders = {name: str(tmp_path / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    code = (
        "import nbagent.faces.cli.app, nbagent.faces.cli.ask, nbagent.faces.terminal.view\n"
        "import nbagent.session.session, nbagent.notebook.export"
    )
    subprocess.run([sys.executable, "-B", "-c", code], check=True, env={"PATH": "/usr/bin:/bin", **folders})
    assert list(tmp_path.iterdir()) == []


def test_no_modules_import_each_other() -> None:
    """Not even in a function or for the type checker, but for the front door: it names everything and imports late."""
    graph = grimp.build_graph("nbagent", cache_dir=None)
    below = graph.modules - {"nbagent"}
    order = graphlib.TopologicalSorter({name: graph.find_modules_directly_imported_by(name) & below for name in below})
    assert len(below) > 100
    order.prepare()  # else a CycleError says who


def test_the_package_runs_as_the_command() -> None:
    """`python -m nbagent` does what `nbagent` does."""
    found = subprocess.run([sys.executable, "-m", "nbagent", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == nbagent.__version__
