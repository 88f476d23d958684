"""Servers to reach, and callers of the proxy."""

from egress.callers import start  # noqa: F401 - fixtures
from egress.world import whole_world, world  # noqa: F401
