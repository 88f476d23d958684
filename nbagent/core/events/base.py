"""The base class of all events."""

from __future__ import annotations

from typing import Any

import msgspec

Output = dict[str, Any]
"""One nbformat 4 output."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """The base class of all events; `type` in JSON is the name of the event's class."""
