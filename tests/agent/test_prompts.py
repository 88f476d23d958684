"""What the model is told."""

from __future__ import annotations

from nbagent.agent.ports import Surroundings
from nbagent.agent.prompts import system_prompt
from nbagent.kernel.describe import Profiles


def surroundings(*, timeout: float = 60.0, hosts: tuple[str, ...] | None = ()) -> Surroundings:
    """A sandbox without data."""
    return Surroundings(data=Profiles(), timeout=timeout, python="3", versions={}, hosts=hosts, programs=True)


def test_the_facts_of_the_sandbox() -> None:
    """Every fact that the model must know to get along is there, within 700 words."""
    told = system_prompt(surroundings(timeout=90))
    for fact in (
        "no network",
        "/tmp/data/",
        "read-only",
        "/tmp/output/",
        "at most 20 files",
        "/workspace",
        "90 seconds",
    ):
        assert fact in told
    for fact in (
        "`install`",
        "Polars",
        "one figure a cell",
        "units",
        "last expression",
        "tbl_rows",
        "Don't embed images",
    ):
        assert fact in told
    assert "There are no data files." in told
    assert len(told.split()) < 700
    assert "{" not in told


def test_the_network_it_has() -> None:
    """None, all of it, or the hosts by name."""
    assert "It has no network: don't try to download." in system_prompt(surroundings())
    assert "It has the network." in system_prompt(surroundings(hosts=None))
    told = system_prompt(surroundings(hosts=("api.example.org", "*.data.test")))
    assert "It has no network but HTTP and HTTPS to api.example.org, *.data.test, which" in told
