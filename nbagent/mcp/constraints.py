"""What a person demands of the tools of MCP servers that a model is offered. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from nbagent.core.errors import UsageError


class Constraints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
        try:
            return msgspec.convert(dict(given or {}), cls)
        except msgspec.ValidationError as error:
            mend = f"Use some of: {', '.join(cls.__struct_fields__)}."
            raise UsageError(f"A constraint on tools is wrong: {error}.", mend=mend) from error
