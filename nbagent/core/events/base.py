"""The base of all events."""

from __future__ import annotations

from typing import Any

import msgspec

Output = dict[str, Any]
"""One nbformat 4 output."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """The base of all events."""
