"""What each trust level permits, and limits that make sense."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import pytest

from nbagent.core.errors import UsageError
from nbagent.core.limits import Limits
from nbagent.core.policy import (
    MIB,
    SECURITY_OPTIONS,
    TRUST_PRESETS,
    InstallPolicy,
    Network,
    Trust,
    TrustLevel,
    asking,
    trust_for,
)

GB = 1024 * MIB
HALF = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // MIB


@pytest.mark.parametrize(
    ("level", "network", "programs", "sockets", "read_only", "memory", "cpus"),
    [
        ("trusted", "full", True, True, False, 2048, None),
        ("isolated", "none", True, True, True, 2048, None),
        ("sandboxed", "allow-list", False, True, True, 512, None),
        ("untrusted", "none", False, False, True, 256, 0.5),
    ],
)
def test_each_level_permits_what_is_documented(
    level: str, network: str, programs: bool, sockets: bool, read_only: bool, memory: int, cpus: float | None
) -> None:
    """The table of trust levels is the documented one."""
    row = TRUST_PRESETS[TrustLevel(level)]
    assert (row.network, row.read_only_root) == (network, read_only)
    assert (row.allow_shell, row.allow_subprocess, row.allow_network_tools) == (programs, programs, sockets)
    assert (row.limits.memory_mb, row.limits.cpus, row.limits.timeout) == (memory, cpus, 60)
    assert row.level == level


@pytest.mark.parametrize(
    ("option", "value", "seen"),
    [
        ("memory_limit_mb", 300, lambda row: row.limits.memory_mb == 300),
        ("cpu_limit", 0.5, lambda row: row.limits.cpus == 0.5),
        ("timeout_seconds", 7, lambda row: row.limits.timeout == 7),
        ("upload_mb", 3, lambda row: row.limits.upload_mb == 3),
        ("download_mb", 3, lambda row: row.limits.download_mb == 3),
        ("allow_shell", False, lambda row: not row.allow_shell and row.allow_subprocess),
        ("allow_subprocess", False, lambda row: not row.allow_shell and not row.allow_subprocess),
        ("allow_network_tools", False, lambda row: not row.allow_network_tools),
        ("read_only_root", False, lambda row: not row.read_only_root),
        ("log_all_commands", True, lambda row: row.log_all_commands),
        ("network_enabled", True, lambda row: row.network is Network.LISTED),
        ("allowed_hosts", ["API.example.org"], lambda row: row.allowed_hosts == ("api.example.org",)),
    ],
)
def test_a_security_option_replaces_the_levels_own(option: str, value: Any, seen: Callable[[Trust], bool]) -> None:
    """Each option by its name, and nothing but what it means."""
    assert seen(trust_for(TrustLevel.ISOLATED, security={option: value}))
    assert option in SECURITY_OPTIONS


@pytest.mark.parametrize(
    ("level", "security", "complaint"),
    [
        ("isolated", {"network": True}, "no security option 'network'"),
        ("isolated", {"allow_shell": "yes"}, "true or false"),
        ("isolated", {"memory_limit_mb": "1g"}, "a number"),
        ("isolated", {"cpu_limit": True}, "a number"),
        ("untrusted", {"allow_shell": True}, "a subprocess"),
        ("isolated", {"allowed_hosts": "example.org"}, "a list"),
        ("isolated", {"allowed_hosts": None}, "a list"),
        ("isolated", {"memory_limit_mb": float("inf")}, "memory_mb must be"),
        ("isolated", {"upload_mb": 0}, "upload_mb must be"),
        ("isolated", {"memory_limit_mb": 300.5}, "whole number"),
        ("isolated", {"cpu_limit": 0.001}, "at least 0.01"),
        ("isolated", {"allowed_hosts": ["https://example.org"]}, "can't be an allowed host"),
        ("isolated", {"allowed_hosts": ["10.0.0.1"]}, "can't be an allowed host"),
        ("isolated", {"allowed_hosts": ["example.org:0"]}, "can't be an allowed host"),
        ("isolated", {"allowed_hosts": ["*"]}, "can't be an allowed host"),
        ("isolated", {"allowed_hosts": ["a\0.org"]}, "can't be an allowed host"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(level: str, security: dict[str, Any], complaint: str) -> None:
    """What is misspelt or contradicts itself never becomes something weaker."""
    with pytest.raises(UsageError, match=complaint):
        trust_for(TrustLevel(level), security=security)


@pytest.mark.parametrize("level", list(TrustLevel))
def test_whoever_is_to_be_asked_for_hosts_is(level: TrustLevel) -> None:
    """Every level then has a list, also one without a network before and one with a full one."""
    assert trust_for(level, security=asking({})).network is Network.LISTED
    own = {"network_enabled": False, "allowed_hosts": ["a.org"], "allow_shell": False}
    row = trust_for(level, security=asking(own))
    assert (row.network, row.allowed_hosts, row.allow_shell) == (Network.LISTED, ("a.org",), False)


def test_packages_are_by_list_only_where_code_is_not_trusted() -> None:
    """The names that such code asks for don't leave the machine; a person's own list still counts."""
    listed = {level: TRUST_PRESETS[level].narrow(InstallPolicy()).listed_only for level in TrustLevel}
    assert listed == {"trusted": False, "isolated": False, "sandboxed": True, "untrusted": True}


def test_every_level_has_a_row() -> None:
    """No level is without its limits."""
    assert set(TRUST_PRESETS) == set(TrustLevel)


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
    assert trust_for(level, data_bytes=100 * GB) == TRUST_PRESETS[level]


def test_the_persons_limits_win() -> None:
    """A limit that a person names replaces the level's and the one fitted to the data; None replaces nothing."""
    limits = trust_for(TrustLevel.ISOLATED, data_bytes=10 * GB, memory_mb=300, timeout=None, cpus=2.0).limits
    assert limits == Limits(memory_mb=300, cpus=2.0)


@pytest.mark.parametrize("name", ["memory_mb", "pids", "tmp_mb", "timeout", "grace", "start_timeout", "cpus"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 10**10, "5", None, True])
def test_a_limit_of_nothing_is_refused(name: str, value: Any) -> None:
    """No bound can be zero, negative, no number or without end: some engines take that for unlimited."""
    if (name, value) == ("cpus", None):
        value = [1]  # None is as many cores as there are
    with pytest.raises(UsageError, match=name):
        Limits(**{name: value})


def test_memory_that_no_kernel_can_start_in_is_refused() -> None:
    """Too little memory is told before a kernel dies of it."""
    with pytest.raises(UsageError, match="128 MB"):
        Limits(memory_mb=127)
    assert Limits(memory_mb=128).memory_mb == 128


def test_what_is_permitted_cannot_be_changed_later() -> None:
    """Rows, limits and the install policy are frozen."""
    row = TRUST_PRESETS[TrustLevel.UNTRUSTED]
    for frozen, name in ((row, "network_enabled"), (Limits(), "memory_mb"), (InstallPolicy(), "allow")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, True)


@pytest.mark.parametrize(
    ("level", "hosts", "ask", "told"),
    [
        ("isolated", None, True, ()),
        ("trusted", None, False, None),
        ("sandboxed", ["example.org"], False, ("example.org",)),
        ("sandboxed", ["example.org"], True, ("example.org", "what a person allows when the code asks for it")),
        ("sandboxed", [], False, ()),
    ],
)
def test_the_model_is_told_which_hosts_there_are(
    level: str, hosts: list[str] | None, ask: bool, told: tuple[str, ...] | None
) -> None:
    """None of them, those of the list, whom a person lets in besides, or all."""
    trust = trust_for(TrustLevel.parse(level), security={} if hosts is None else {"allowed_hosts": hosts})
    assert trust.reachable_hosts(ask_hosts=ask) == told
