"""The environment that a sandbox's kernel has."""

from __future__ import annotations

from pathlib import Path

import machine
import pytest

from nbagent.core.policy import TrustLevel, trust_for
from nbagent.kernel.kernel import Kernel
from nbagent.packages.requirements import Target
from nbagent.sandbox import paths
from nbagent.sandbox.machine import userland
from nbagent.sandbox.machine.traits import traits
from nbagent.sandbox.spec import SandboxSpec


def test_proxies_are_for_the_network_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy's address, which may hold a password, is inside only where there is a network to use it for."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy:1")
    for level in TrustLevel:
        variables = userland.environment_variables(shared_library=False, trust=trust_for(level))
        assert ("secret" in str(variables)) == (level is TrustLevel.TRUSTED)
        assert ("HTTPS_PROXY" in variables) == (level in (TrustLevel.TRUSTED, TrustLevel.SANDBOXED))


def test_cores_are_told_to_libraries() -> None:
    """Where cores are bounded, Polars and OpenMP start no more threads than that."""
    variables = userland.environment_variables(shared_library=False, trust=trust_for(TrustLevel.UNTRUSTED))
    assert variables["POLARS_MAX_THREADS"] == variables["OMP_NUM_THREADS"] == "1"
    assert userland.START[0] == f"{paths.KERNEL}/bin/python"


def test_a_variable_that_is_none_is_not_there_and_an_empty_one_is_empty() -> None:
    """As Polars takes an empty one for no number; those that no spec changes stay."""
    given = [("POLARS_FMT_MAX_ROWS", None), ("POLARS_FMT_MAX_COLS", "7"), ("LANG", "")]
    found = userland.environment_variables(shared_library=False, trust=trust_for(TrustLevel.ISOLATED), variables=given)
    assert "POLARS_FMT_MAX_ROWS" not in found
    assert (found["POLARS_FMT_MAX_COLS"], found["PYTHONHOME"], found["LANG"]) == ("7", "", "")


@pytest.mark.parametrize("none", ["", None])
def test_traits_of_a_sandbox_without_variables(none: str | None) -> None:
    """What a caller has set to nothing or taken away is told as Python then takes it."""
    spec = SandboxSpec(variables=tuple((name, none) for name in ("LANG", "TZ", "PYTHONHASHSEED", "LOKY_MAX_CPU_COUNT")))
    found = traits(spec, Target(python="3.11", platform="x86_64-manylinux_2_36", pins=Path("none")))
    told = {name: found[name] for name in ("locale", "time_zone", "hash_seed", "threads")}
    assert told == {"locale": "C", "time_zone": "UTC", "hash_seed": "random", "threads": None}


@pytest.mark.parametrize("engine", ["bubblewrap", "docker"])
async def test_an_empty_variable_reaches_the_code(engine: str) -> None:
    """As an empty one; one that is None is not there."""
    spec = SandboxSpec(variables=(("EMPTY_ONE", ""), ("TZ", None)))
    async with Kernel(machine.works(engine), spec) as kernel:
        cell = await kernel.run("import os\n[os.environ.get(name) for name in ('EMPTY_ONE', 'TZ')]")
    assert cell.text == "['', None]"


@pytest.mark.parametrize("engine", ["bubblewrap", "docker"])
async def test_sets_print_in_the_same_order_each_time(engine: str) -> None:
    """The seed of Python's hashes is fixed; another one, and any other variable, is a matter of the spec."""
    code = "import time\nprint({'a', 'b', 'c', 'd', 'e'}, time.tzname[0])"
    specs = [SandboxSpec(), SandboxSpec(), SandboxSpec(variables=(("PYTHONHASHSEED", "7"), ("TZ", "XYZ-3")))]
    texts = []
    for spec in specs:
        async with Kernel(machine.works(engine), spec) as kernel:
            texts.append((await kernel.run(code)).text)
    assert texts[0] == texts[1]
    assert texts[2].endswith("XYZ")
    assert texts[2].split("}")[0] != texts[0].split("}")[0]
