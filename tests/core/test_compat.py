"""Private names of dependencies: each is there in the form that nbagent needs, and none is used that isn't listed."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nbagent
from nbagent.core import compat
from nbagent.core.compat import Private

LISTED = [
    private
    for value in vars(compat).values()
    for private in (value if isinstance(value, tuple) and not isinstance(value, Private) else [value])
    if isinstance(private, Private)
]
PACKAGE = Path(nbagent.__file__).parent
POINTS = {"_agenerate", "_arun", "_astream", "_generate", "_llm_type", "_run", "_stream"}
"""What LangChain's own guides ask a subclass to define."""


def owner(private: Private) -> Any:
    """The class or module that has a name."""
    module, _, name = private.owner.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


@pytest.mark.parametrize("private", LISTED, ids=lambda each: f"{each.owner}.{each.name}")
def test_it_is_there(private: Private) -> None:
    """As an attribute of its owner, or as one that the owner's code sets."""
    found = owner(private)
    if not hasattr(found, private.name):
        modules = {base.__module__ for base in found.__mro__} - sys.stdlib_module_names
        code = "".join(inspect.getsource(sys.modules[each]) for each in modules if not each.startswith("_"))
        assert f"self.{private.name} = " in code or f"    {private.name}: " in code
    assert private.why


@pytest.mark.parametrize(
    ("private", "parameters"),
    [
        (compat.STREAM, "self messages stop run_manager kwargs"),
        (compat.RESPONSES_RULE, "self payload"),
        (compat.TOOL_ARGUMENTS, "self tool_input tool_call_id"),
        *[
            (each, "self s port" if each.owner.endswith("IPKernelApp") else "self")
            for each in compat.IPYKERNEL
            if each.name in {"_watch_pipe_fd", "_is_master_process", "_flush_buffers", "_flush", "_bind_socket"}
        ],
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_it_is_called_as_nbagent_does(private: Private, parameters: str) -> None:
    """With these parameters."""
    found = inspect.signature(getattr(owner(private), private.name)).parameters
    assert list(found) == parameters.split()


def test_langchains_list_of_providers() -> None:
    """Their names, each with its module first."""
    assert compat.PROVIDERS.of(owner(compat.PROVIDERS))["mistralai"][0] == "langchain_mistralai"


def test_an_http_client_has_hooks() -> None:
    """So that one model's streams can be read, whichever HTTP library its provider's package is made with."""
    for private in compat.HTTP_CLIENTS:
        client = private.of(owner(private)(api_key="none"))
        library = importlib.import_module(type(client).__mro__[-3].__module__.partition(".")[0])
        assert inspect.isclass(library.AsyncByteStream)
        assert client.event_hooks == {"request": [], "response": []}


async def test_a_process_closes_its_pipes() -> None:
    """At once."""
    process = await asyncio.create_subprocess_exec("true", stdin=subprocess.PIPE)
    await process.wait()
    compat.TRANSPORT.of(process).close()


def _own_names(tree: ast.AST) -> set[str]:
    """Names that nbagent defines or sets itself."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    set_names = (node for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Store))
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)} | {
        node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in set_names
    }


def _used_names(tree: ast.AST) -> set[str]:
    """Names that are read of anything, by a dot or by `getattr`."""
    read = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    return {node.attr for node in read} | {
        str(node.args[1].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "setattr", "hasattr"}
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
    }


def test_no_other_private_name_is_read() -> None:
    """What begins with an underscore and isn't nbagent's own is in the list, or documented by Python or IPython."""
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    own = {name for tree in trees.values() for name in _own_names(tree)}
    public = {"_asdict", "_replace", "_exit", "_fields_", "_repr_html_"}
    listed = {private.name for private in LISTED}
    used = {name: path for path, tree in trees.items() for name in _used_names(tree) if name.startswith("_")}
    strange = {name: path for name, path in used.items() if not name.startswith("__")}
    assert {name: str(path) for name, path in strange.items() if name not in own | public | listed} == {}
    modules = [
        node.module or ""
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and path.name != "compat.py"
    ]
    assert [each for each in modules if "._" in f".{each}".replace("__", "")] == []


def _classes() -> list[type]:
    """The package's classes, of each module that can be imported outside of a sandbox."""
    for found in pkgutil.walk_packages(nbagent.__path__, "nbagent."):
        if "_inside" not in found.name and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("nbagent.")]
    found = [each for module in modules for each in vars(module).values() if inspect.isclass(each)]
    return [each for each in found if each.__module__.startswith("nbagent.")]


def test_no_other_private_name_is_overridden() -> None:
    """By a subclass of a dependency's class: it would take the place of what it doesn't know."""
    listed = POINTS | {private.name for private in LISTED}
    found = set()
    for each in _classes():
        strangers = [base for base in each.__mro__ if base.__module__.partition(".")[0] not in OURS]
        for name in vars(each):
            if name.startswith("_") and not name.endswith("__") and any(name in vars(base) for base in strangers):
                found.add((each.__name__, name))
    assert {(kind, name) for kind, name in found if name not in listed and name not in MADE} == set()


OURS = {"nbagent", *sys.stdlib_module_names}
MADE = {
    *("_abc_impl", "_is_protocol", "_is_runtime_protocol"),
    *("_all_trait_default_generators", "_descriptors", "_instance_inits", "_static_immutable_initial_values"),
    *("_trait_default_generators", "_traits", "_stream_request_body"),
}
"""What metaclasses and Tornado's decorator put into a class."""

SESSION = """
import asyncio, sys, types
from importlib import import_module

OWNERS = "langchain langchain_core langgraph langchain_openai langchain_anthropic langchain_groq".split()
for name in (
    "langchain.agents.factory langchain.agents.middleware langchain.chat_models langchain_core.messages.tool "
    "langchain_core.language_models.chat_models langchain_core.output_parsers langchain_core.tools "
    "langchain_core.utils langgraph.graph.message langgraph.prebuilt langgraph.pregel langgraph.checkpoint.memory "
    "langgraph.checkpoint.sqlite.aio langgraph.store.sqlite.aio langchain_openai langchain_anthropic langchain_groq"
).split():
    import_module(name)

def snapshot():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OWNERS:
            for key, value in vars(module).items():
                if callable(value):
                    found[name, key] = value
                if isinstance(value, type) and value.__module__ == name:
                    found |= {(name, key + "." + each): thing for each, thing in vars(value).items()}
    return found

before = snapshot()

async def main():
    from nbagent import Session
    from nbagent.agent.providers.models import open_model

    for model in ("openai:gpt-4.1", "anthropic:claude-sonnet-5", "groq:llama"):
        await open_model(model).aclose()
    async with Session(model="replay:" + sys.argv[1], engine="bubblewrap") as session:
        print((await session.ask("How much?")).text)

asyncio.run(main())
after = snapshot()
print([name for name, value in before.items() if after.get(name) is not value and "__" not in name[1]])
"""


def test_langchain_is_as_it_was_after_a_session(tmp_path: Path) -> None:
    """Other people's kernels and servers, in which nbagent runs, use it too: no function, no class is replaced."""
    calls = [{"name": "python", "args": {"code": "6 * 7"}}]
    replies = [{"content": "", "tool_calls": calls}, {"content": "It is 42."}]
    (tmp_path / "replies.jsonl").write_text("".join(f"{json.dumps(reply)}\n" for reply in replies))
    command = [sys.executable, "-c", SESSION, str(tmp_path / "replies.jsonl")]
    given = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY"), "none")
    given |= {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, env=given, cwd=tmp_path, check=False)
    assert (ran.stdout.splitlines(), ran.returncode) == (["It is 42.", "[]"], 0), ran.stderr
