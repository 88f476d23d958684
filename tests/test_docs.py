"""README, ARCHITECTURE and the guides in docs/ are true: what they name is there, and what they show is run.

A block of code is run as it stands, in a folder with the files that the guides speak of, on the engine bubblewrap and
with providers on loopback. One that is marked `check` is only parsed: it needs a person, a browser, Docker, or minutes.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import machine
import pytest
import typer.main
from agent.stubs import anthropic, openai_chat
from agent.stubs.transport import Say, Stub, python
from program import Forks, environment
from starlette.testclient import TestClient

from nbagent.core import errors, options, settings
from nbagent.faces.cli import EXIT_STOPPED
from nbagent.faces.cli.app import app
from nbagent.faces.cli.work import EXIT_NOT_DELIVERED
from nbagent.faces.magic.request import FLAGS
from nbagent.mcp import servers

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *GUIDES]
ALL = [*PAGES, ROOT / "ARCHITECTURE.md"]
BOUNDS = {"README.md": 150, "ARCHITECTURE.md": 200}
GUIDE_BOUND = 120
NO_PATHS = {"nbagent-output/"}
"""Of the person's own machine."""
ID = re.compile(r"\b20261121-0645\b")
"""The session of the examples: where they are run, the one that was used last."""


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    mark: str
    text: str


def blocks(page: Path, language: str) -> list[Block]:
    """The blocks of a page in a language, in order."""
    found = re.findall(r"^```(\w+) ?(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(*each) for each in found if each[0] == language]


def commands(page: Path, *marks: str) -> list[str]:
    """The commands of its shell blocks that bear one of these marks, each on one line."""
    texts = [block.text.replace("\\\n", " ") for block in blocks(page, "sh") if block.mark in marks]
    lines = [line for text in texts for line in text.splitlines()]
    return [line for line in lines if shlex.split(line, comments=True)]


def codes(page: Path) -> list[str]:
    """The Python that is run."""
    return [block.text for block in blocks(page, "python") if not block.mark]


def prose(page: Path) -> str:
    """Its text without its blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names of its headings in links, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def flags() -> set[str]:
    """Every flag of every command."""
    return {flag for command in _commands(typer.main.get_command(app)) for each in command.params for flag in each.opts}


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _commands(each)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what the examples speak of."""
    table = "region,half,revenue\nnorth,1,10.5\nnorth,2,12.0\nsouth,1,7.0\nsouth,2,11.5\n"
    server = {"command": sys.executable, "args": [str(ROOT / "tests" / "mcp" / "server.py")]}
    (tmp_path / "regions").mkdir()
    for name, text in {
        "sales.csv": table,
        "regions/north.csv": table,
        "script.py": "print(sum(range(10)))\n",
        "model.pkl": "weights",
        "servers.json": json.dumps({"mcpServers": {"own": server}}),
    }.items():
        (tmp_path / name).write_text(text)
    forge = blocks(ROOT / "docs" / "forge.md", "python")
    (tmp_path / "word_count.py").write_text(forge[0].text)
    (tmp_path / "test_word_count.py").write_text(forge[1].text)
    return tmp_path


@pytest.fixture
def variables(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a person with keys: each question is answered by a cell and a sentence."""
    answers = [Say(calls=(python("print(40 + 2)"),)), Say(text="It is 42.")] * 20
    with Stub(openai_chat) as openai, Stub(anthropic) as other:
        openai.say(*answers)
        other.say(*answers)
        openai.models, other.models = ["gpt-5.6"], ["claude-sonnet-5"]
        yield {
            "NBAGENT_ENGINE": machine.works("bubblewrap").name,
            "NBAGENT_STATE_DIR": str(folder / "state"),
            "OPENAI_API_KEY": "sk-example",
            "OPENAI_BASE_URL": openai.url,
            "ANTHROPIC_BASE_URL": other.url,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }


def last(state: Path) -> str:
    """The id of the session that was used last."""
    logs = (state / "sessions").glob("*/log.jsonl")
    return max(logs, key=lambda each: each.stat().st_mtime_ns).parent.name


def to_run(page: Path) -> list[str]:
    """The commands of a page that are run with it: of README those that no guide shows too."""
    shown = {tuple(shlex.split(line, comments=True)) for guide in GUIDES for line in commands(guide, "")}
    lines = commands(page, "")
    return lines if page in GUIDES else [line for line in lines if tuple(shlex.split(line, comments=True)) not in shown]


@pytest.mark.parametrize("page", [page for page in PAGES if to_run(page)], ids=lambda page: page.stem)
def test_commands_do_what_is_said(page: Path, folder: Path, variables: dict[str, str], forks: Forks) -> None:
    for line in to_run(page):
        words = shlex.split(ID.sub(lambda _: last(folder / "state"), line), comments=True)
        if "nbagent" in words:
            own, words = words[: words.index("nbagent")], words[words.index("nbagent") + 1 :]
            done = forks.run(*words, cwd=folder, **(variables | dict(each.split("=") for each in own)))
            assert done.code == 0, f"{line}\n{done.out}\n{done.err}"
        else:
            subprocess.run(
                words, cwd=folder, env=environment(**variables), check=True, capture_output=True, timeout=600
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_ones_that_there_are(page: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in commands(page, "", "check"):
        words = [word for word in shlex.split(line, comments=True) if not re.match(r"[A-Z_]+=", word)]
        match words:
            case ["nbagent", *rest]:
                command: Any = typer.main.get_command(app)
                while rest and rest[0] in getattr(command, "commands", {}):
                    command, *rest = command.commands[rest[0]], *rest[1:]
                command.make_context(line, rest)  # raises where an option or its value is wrong
            case ["make", target]:
                assert target in targets
            case ["jupyter", program, *_]:
                assert Path(sys.executable).with_name(f"jupyter-{program}").exists()
            case _:
                assert words in (["uv", "tool", "install", "."],) or words[0] == "ssh", line


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(not each.mark for each in blocks(page, "python"))],
    ids=lambda page: page.stem,
)
def test_python_does_what_is_said(page: Path, folder: Path, variables: dict[str, str], forks: Forks) -> None:
    done = forks.python(*codes(page), cwd=folder, **variables)
    assert done.code == 0, done.out + done.err


def test_a_web_server_streams_the_events_of_an_answer(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (block,) = (each for each in blocks(ROOT / "docs" / "embedding.md", "python") if each.mark == "server")
    names: dict[str, Any] = {}
    exec(block.text, names)  # noqa: S102 - it is what is tested
    with TestClient(names["app"]) as client:
        lines = client.get("/ask", params={"question": "Which region grew fastest?"}).text.splitlines()
    assert json.loads(lines[-1])["event"] == "Answered"
    assert "OutputAdded" in {json.loads(line)["event"] for line in lines}


def test_python_that_is_not_run_is_python() -> None:
    for page in PAGES:
        for block in blocks(page, "python"):
            compile(block.text, page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_settings_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [block for page in PAGES for block in blocks(page, "toml")]
    assert found
    monkeypatch.setattr(settings, "config_file", lambda: tmp_path / "config.toml")
    for block in found:
        (tmp_path / "config.toml").write_text(block.text)
        loaded = settings.load()
        assert all(getattr(loaded, name) != getattr(options.Options(), name) for name in _changed(block.text))


def _changed(text: str) -> list[str]:
    """The settings whose value isn't the default."""
    same = {"trust": "isolated", "install": True}
    return [name for name, value in tomllib.loads(text).items() if same.get(name) != value]


def test_lists_of_mcp_servers_are_taken(tmp_path: Path) -> None:
    found = [block for page in PAGES for block in blocks(page, "json")]
    assert found
    for block in found:
        (tmp_path / "mcp.json").write_text(block.text)
        assert servers.load(tmp_path / "mcp.json", environment={"WIKI_TOKEN": "x"})


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    for link in links:
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.stem)
def test_what_is_named_is_there(page: Path) -> None:
    text = "\n".join(re.findall(r"`([^`\n]+)`", prose(page)))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    foreign = {"--without", "--execute", "--to", "--help"}  # pytest's, nbconvert's, Click's own
    assert named - flags() - FLAGS.keys() - foreign == set()
    variables = {f"NBAGENT_{name.upper()}" for name in options.fields()}
    assert set(re.findall(r"NBAGENT_[A-Z_]*[A-Z]", text)) - variables - {"NBAGENT_PANEL"} == set()
    for path in re.findall(r"^(?:[\w.*-]+/)+[\w.*-]*$", text, re.MULTILINE):
        assert [*ROOT.glob(path), *(ROOT / "nbagent").rglob(path.rstrip("/"))] or path in NO_PATHS, path


def test_every_setting_and_variable_is_named() -> None:
    """By its name, its flag or its variable; but for variables of tests, and those that one part tells another."""
    text = "".join(page.read_text() for page in PAGES)
    for name, (_, option) in options.fields().items():
        words = (name, f"NBAGENT_{name.upper()}", option.flags.partition(" ")[0])
        assert not option.setting or any(
            re.search(rf"(?<![\w-]){re.escape(each)}\b", text) for each in words if each
        ), name
    sources = [*(ROOT / "nbagent").rglob("*.py"), ROOT / "panel" / "hatch_build.py"]
    read = {name for path in sources for name in re.findall(r"\bNBAGENT_[A-Z0-9_]*[A-Z0-9]\b", path.read_text())}
    settings_ = {f"NBAGENT_{name.upper()}" for name in options.fields()}
    own = {"NBAGENT_LEASE", "NBAGENT_NEIGHBOUR", "NBAGENT_SELF_CHECK", "NBAGENT_SELF_CHECK_SECRET", "NBAGENT_TEST"}
    assert {name for name in read - settings_ - own if name not in text} == set()


def test_every_exit_code_is_named() -> None:
    """In the table, and no other."""
    page = (ROOT / "docs" / "settings.md").read_text().partition("## Exit codes")[2]
    named = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    kinds, codes = [errors.NbagentError], {0, EXIT_NOT_DELIVERED, EXIT_STOPPED}
    while kinds:
        codes.add((kind := kinds.pop()).exit_code)
        kinds += kind.__subclasses__()
    assert named == codes | {128 + signal.SIGHUP, 128 + signal.SIGTERM}
    said = (ROOT / "README.md").read_text().partition("It ends with ")[2].partition("`sys.exit`")[0]
    assert {int(code) for code in re.findall(r"\b\d+\b", said)} == codes


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.stem)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= BOUNDS.get(page.name, GUIDE_BOUND)


def test_the_floors_are_those_that_imports_are_held_to() -> None:
    rows = re.findall(r"^\| (\d+) \| ([`\w, ]+) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    floors: dict[int, set[str]] = {}
    for number, names in rows:
        floors.setdefault(int(number), set()).update(re.findall(r"`(\w+)`", names))
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == "floors")
    assert floors == {number: set(layer.split(" | ")) for number, layer in enumerate(layers, 1)}


def test_every_guide_can_be_found_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [page.name for page in GUIDES if f"(docs/{page.name})" not in text] == []


def test_the_picture_is_small_and_one_that_make_can_make_again() -> None:
    assert 10_000 < (ROOT / "docs" / "demo.png").stat().st_size < 150_000
    assert shutil.which("make")
    told = subprocess.run(["make", "--dry-run", "picture"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "docs/demo.png" in told.stdout
