"""The project's own files agree with each other: ranges, pins, the conda environment and the engines' kernelspecs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PINS = ["requirements.txt", "kernels/requirements.txt", "tests/requirements.txt"]
# conda-forge's name, where it isn't the index's.
CONDA_NAMES = {"docker": "docker-py", "fastjsonschema": "python-fastjsonschema", "matplotlib": "matplotlib-base"}


def project() -> dict[str, Any]:
    """The table `[project]` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def runtime() -> list[Requirement]:
    """The ranges of what nbagent imports."""
    return [Requirement(line) for line in project()["dependencies"]]


def extra(name: str) -> list[Requirement]:
    """The ranges of what an extra adds."""
    return [Requirement(line) for line in project()["optional-dependencies"][name]]


def loose(name: str) -> list[Requirement]:
    """The lines of a requirements.in, without its comments."""
    lines = (line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def pins(name: str) -> dict[str, set[Version]]:
    """The versions that a requirements.txt allows, by distribution."""
    found: dict[str, set[Version]] = {}
    for distribution, version in re.findall(r"^([\w.-]+)==([\w.+!]+)", (ROOT / name).read_text(), re.MULTILINE):
        found.setdefault(canonicalize_name(distribution), set()).add(Version(version))
    return found


def assert_pinned(wanted: list[Requirement], name: str) -> None:
    """Each requirement has a pin in the file `name`, and every such pin is within its range."""
    pinned = pins(name)
    for requirement in wanted:
        versions = pinned.get(canonicalize_name(requirement.name), set())
        assert versions, f"{name} has no pin of {requirement.name}; run: make pins"
        for version in versions:
            assert requirement.specifier.contains(version, prereleases=True), (
                f"{name}: {version} is not in {requirement}"
            )


def test_pins_of_the_runtime_are_within_the_ranges() -> None:
    """What `make install` installs is what pyproject.toml allows."""
    assert_pinned(runtime(), "requirements.txt")


def test_pins_of_the_tests_are_within_the_ranges() -> None:
    """What `make test` installs is what pyproject.toml allows, with its extra `test`, MCP and every provider."""
    extras = ("anthropic", "google", "groq", "ollama", "openrouter", "mcp")
    asked = [each for name in extras for each in extra(name)]
    assert_pinned([*runtime(), *extra("test"), *asked], "tests/requirements.txt")


def test_pins_of_the_kernel_are_within_the_ranges() -> None:
    """A kernel holds everything that kernels/requirements.in names, and what the local engine promises."""
    assert_pinned([*loose("kernels/requirements.in"), *extra("local")], "kernels/requirements.txt")


def test_the_tests_run_with_the_versions_that_are_installed() -> None:
    """A distribution that both files pin has one version, so that adding the tests' changes nothing else."""
    installed, tests = pins("requirements.txt"), pins("tests/requirements.txt")
    assert {name for name in installed.keys() & tests if installed[name] != tests[name]} == set()


@pytest.mark.parametrize("name", PINS)
def test_a_distribution_has_one_version_whatever_the_python(name: str) -> None:
    """No distribution is pinned twice for different Pythons: results would differ with the Python that runs them."""
    assert {distribution: versions for distribution, versions in pins(name).items() if len(versions) > 1} == {}


@pytest.mark.parametrize("name", PINS)
def test_every_pin_has_a_hash(name: str) -> None:
    """A wheel that was exchanged after it was pinned is refused."""
    blocks = re.split(r"^(?=[\w.-]+==)", (ROOT / name).read_text(), flags=re.MULTILINE)[1:]
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("name", [*PINS, "kernels/requirements.in", "environment.yml", "pyproject.toml"])
def test_no_address_is_written_down(name: str) -> None:
    """Where packages come from is each machine's own setting: behind a mirror, the same files work."""
    lines = (ROOT / name).read_text().splitlines()
    address = re.compile(r"://|--(extra-)?index-url|--find-links|^-[if] ")
    assert [line for line in lines if address.search(line)] == []


def test_the_panel_has_the_version_of_the_package_and_its_lock_no_address() -> None:
    """JupyterLab shows one version; and behind a mirror, the same lock installs."""
    assert json.loads((ROOT / "panel" / "package.json").read_text())["version"] == project()["version"]
    lock = json.loads((ROOT / "panel" / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


def test_the_conda_environment_names_every_runtime_dependency() -> None:
    """Whoever works in conda gets what whoever works with pip gets, with the same ranges."""
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    from_pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    lines = [*(entry for entry in listed if isinstance(entry, str)), *(line for line in from_pip if line != "-e .")]
    conda = {canonicalize_name(line.split()[0]): line.partition(" ")[2] for line in lines}
    for requirement in [*runtime(), *extra("local")]:
        name = canonicalize_name(CONDA_NAMES.get(requirement.name, requirement.name))
        assert conda.get(name) == str(requirement.specifier), f"environment.yml and pyproject.toml differ on {name}"


@pytest.mark.parametrize("folder", sorted((ROOT / "kernels").glob("nbagent-*")), ids=lambda folder: folder.name)
def test_a_kernelspec_names_a_provisioner_of_this_project(folder: Path) -> None:
    """JupyterLab starts a kernel of ours in the engine that its folder is called after."""
    spec = json.loads((folder / "kernel.json").read_text())
    provisioner = spec["metadata"]["kernel_provisioner"]["provisioner_name"]
    assert provisioner == folder.name
    assert provisioner in project()["entry-points"]["jupyter_client.kernel_provisioners"]


@pytest.mark.parametrize("folder", sorted((ROOT / "kernels").glob("nbagent-*")), ids=lambda folder: folder.name)
def test_a_client_that_knows_no_provisioners_starts_nothing(folder: Path, tmp_path: Path) -> None:
    """Some start what the kernelspec names by themselves, outside of any sandbox: that says so and ends."""
    file = tmp_path / "connection.json"
    file.write_text(json.dumps({"transport": "tcp", "ip": "127.0.0.1", "key": "k", "signature_scheme": "hmac-sha256"}))
    words = json.loads((folder / "kernel.json").read_text())["argv"]
    command = [sys.executable, *(each.replace("{connection_file}", str(file)) for each in words[1:])]
    ended = subprocess.run(command, timeout=60, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "without its sandbox" in ended.stderr


def test_no_kernelspec_is_unsandboxed() -> None:
    """Nobody can choose the engine that isolates nothing from a menu."""
    assert [
        path.parent.name for path in (ROOT / "kernels").glob("*/kernel.json") if "nbagent-local" in path.read_text()
    ] == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import json\njson.loads('1')", "TID251"),
        ("from json import loads\nloads('1')", "TID251"),
        ("import ast\nast.literal_eval('1')", "TID251"),
        ("import pickle\npickle.loads(b'')", "TID251"),
        ("import marshal\nmarshal.loads(b'')", "TID251"),
        ("eval('1')", "S307"),
    ],
)
def test_no_other_parser_reads_what_sandboxes_say(code: str, rule: str) -> None:
    """The linter complains of each, in any module that is not in its list with a reason."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "concise", "--stdin-filename"]
    done = subprocess.run(
        [*command, "nbagent/kernel/some_module.py", "-"],
        input=code, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f" {rule} " in done.stdout, done.stdout + done.stderr


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5, so also Debian 12's, then matches more than there is; `(?>(…)*)` means the same there."""
    possessive = re.compile(r"\)(?:[*+?]|\{[\d,{}]+\})\+")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / "nbagent").rglob("*.py")
        for line in path.read_text().splitlines()
        if possessive.search(line)
    ]
    assert found == []


def test_what_the_door_of_a_room_names_is_there() -> None:
    """The docstring of a room's `__init__.py` is its map: a table whose first column has modules and folders."""
    for door in (ROOT / "nbagent").rglob("__init__.py"):
        said = ast.get_docstring(ast.parse(door.read_text())) or ""
        rows = re.findall(r"^ *([a-z_]+(?:\.py|/)?(?:, [a-z_]+)*)  +\S", said, re.MULTILINE)
        named = {name for row in rows for name in row.split(", ")}
        assert named or len(door.relative_to(ROOT).parts) != 3, door
        assert {name for name in named if not list(door.parent.glob(f"{name.rstrip('/')}*"))} == set(), door


@pytest.mark.parametrize(
    "door", ["agent/middleware", "agent/tools", "faces/cli", "faces/magic", "kernel/inside", "sandbox/inside"]
)
def test_the_map_of_a_large_room_has_each_of_its_modules(door: str) -> None:
    folder = ROOT / "nbagent" / door
    said = set(re.findall(r"[a-z_]+", ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""))
    assert {each.stem for each in folder.glob("*.py")} - {"__init__"} - said == set()
