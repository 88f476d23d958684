"""What each trust level permits, and limits that make sense."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest

from nbagent.errors import UsageError
from nbagent.policy import MIB, TRUST, InstallPolicy, Limits, TrustLevel, trust_for

GB = 1024 * MIB
HALF = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // MIB


@pytest.mark.parametrize(
    ("level", "network", "subprocess", "read_only", "memory", "cpus"),
    [
        ("trusted", True, True, False, 2048, None),
        ("isolated", False, True, True, 2048, None),
        ("sandboxed", False, False, True, 512, None),
        ("untrusted", False, False, True, 256, 0.5),
    ],
)
def test_each_level_permits_what_is_documented(
    level: str, network: bool, subprocess: bool, read_only: bool, memory: int, cpus: float | None
) -> None:
    """The table of trust levels is the documented one."""
    row = TRUST[TrustLevel(level)]
    assert (row.network, row.subprocess, row.read_only_root) == (network, subprocess, read_only)
    assert (row.limits.memory_mb, row.limits.cpus, row.limits.timeout) == (memory, cpus, 60)
    assert row.level == level


def test_every_level_has_a_row() -> None:
    """No level is without its limits."""
    assert set(TRUST) == set(TrustLevel)


@pytest.mark.parametrize("name", ["isolated", " Isolated ", "ISOLATED"])
def test_a_level_is_known_however_it_is_written(name: str) -> None:
    """Capitals and blanks around a level's name don't matter."""
    assert TrustLevel.parse(name) is TrustLevel.ISOLATED


@pytest.mark.parametrize("name", ["", "root", "isolated\0"])
def test_an_unknown_level_is_refused_with_those_there_are(name: str) -> None:
    """A misspelt level never becomes another one; the mend lists all."""
    with pytest.raises(UsageError) as caught:
        TrustLevel.parse(name)
    assert all(level.value in caught.value.mend for level in TrustLevel)


@pytest.mark.parametrize(("size", "memory"), [(0, 2048), (100 * MIB, 2048), (512 * MIB, 2048)])
def test_memory_does_not_shrink_for_small_data(size: int, memory: int) -> None:
    """Data that fits leaves the level's own limit."""
    assert trust_for(TrustLevel.ISOLATED, data_bytes=size).limits.memory_mb == memory


def test_memory_grows_with_the_data() -> None:
    """`isolated` has three times the data and half a gigabyte, as far as the machine allows."""
    grown = trust_for(TrustLevel.ISOLATED, data_bytes=GB).limits.memory_mb
    assert grown == max(2048, min(3 * 1024 + 512, HALF))


def test_memory_is_capped_at_half_of_the_machine() -> None:
    """However large the data, half of the machine's memory is left to others."""
    assert trust_for(TrustLevel.ISOLATED, data_bytes=10_000 * GB).limits.memory_mb == max(2048, HALF)


@pytest.mark.parametrize("level", [TrustLevel.TRUSTED, TrustLevel.SANDBOXED, TrustLevel.UNTRUSTED])
def test_other_levels_do_not_grow(level: TrustLevel) -> None:
    """Large data widens no limit of a level that distrusts the code."""
    assert trust_for(level, data_bytes=100 * GB) == TRUST[level]


def test_the_persons_limits_win() -> None:
    """A limit that a person names replaces the level's and the one fitted to the data; None replaces nothing."""
    limits = trust_for(TrustLevel.ISOLATED, data_bytes=10 * GB, memory_mb=300, timeout=None, cpus=2.0).limits
    assert limits == Limits(memory_mb=300, cpus=2.0)


@pytest.mark.parametrize("name", ["memory_mb", "pids", "tmp_mb", "timeout", "grace", "start_timeout", "cpus"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_limit_of_nothing_is_refused(name: str, value: Any) -> None:
    """No bound can be zero, negative or no number: some engines take that for unlimited."""
    with pytest.raises(UsageError, match=name):
        Limits(**{name: value})


def test_memory_that_no_kernel_can_start_in_is_refused() -> None:
    """Too little memory is told before a kernel dies of it."""
    with pytest.raises(UsageError, match="128 MB"):
        Limits(memory_mb=127)
    assert Limits(memory_mb=128).memory_mb == 128


def test_what_is_permitted_cannot_be_changed_later() -> None:
    """Rows, limits and the install policy are frozen."""
    for frozen, name in ((TRUST[TrustLevel.UNTRUSTED], "network"), (Limits(), "memory_mb"), (InstallPolicy(), "allow")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, True)
