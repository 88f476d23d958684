"""What a person demands of the tools of MCP servers that a model is offered. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from nbagent.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """Constraints on the tools that are chosen for a question.

    Attributes:
        max_latency_ms: The longest mean time of a tool's calls; a tool without calls passes.
        read_only: Whether only tools that say that they only read are chosen.
        allow_servers: The servers whose tools may be chosen; None for all.
        deny: Tools, servers and capabilities that are excluded.
        capabilities: Capabilities that each question needs besides those that follow from its words.
        max_tools: How many are chosen at most; None for the limits in `select.py`.
    """

    max_latency_ms: float | None = None
    read_only: bool = False
    allow_servers: frozenset[str] | None = None
    deny: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset()
    max_tools: int | None = None

    def __post_init__(self) -> None:
        if (self.max_tools or 0) < 0 or (self.max_latency_ms is not None and not self.max_latency_ms > 0):
            raise UsageError("Constraints on tools must be above 0: max_latency_ms, max_tools.")

    @classmethod
    def of(cls, given: Constraints | Mapping[str, Any] | None) -> Constraints:
        """Read constraints from a table.

        Raises:
            UsageError: A constraint is unknown, or of the wrong type.
        """
        if isinstance(given, Constraints):
            return given
        table = dict(given or {})
        known = [each.name for each in fields(cls)]
        if unknown := next((name for name in table if name not in known), None):
            raise UsageError(f"There is no constraint {unknown!r}.", mend=f"Use some of: {', '.join(known)}.")
        try:
            for name in ("allow_servers", "deny", "capabilities"):
                if isinstance(table.get(name), str):
                    raise UsageError(f"The constraint {name} is a list of names.")
                if table.get(name) is not None:
                    table[name] = frozenset(table[name])
            return cls(**table)
        except TypeError as error:
            raise UsageError(f"A constraint on tools is of the wrong kind: {error}.") from error
