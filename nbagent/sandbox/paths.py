"""Where things are inside of a sandbox, the same in every engine that isolates, so that tracebacks read the same."""

from __future__ import annotations

DATA = "/tmp/data"  # noqa: S108 - a path inside
"""The person's data, read-only."""
OUTPUT = "/tmp/output"  # noqa: S108 - a path inside
"""Where code leaves its results."""
WORKSPACE = "/workspace"
"""Where code works."""
VARIABLES = f"{WORKSPACE}/.variables"
"""Files of variables on their way in or out."""
HOME = "/home/sandbox"
RUN = "/run/nbagent"
"""What the controller shares with the sandbox, read-only: nbagent's own programs, and the socket to the controller."""
PYTHON = "/opt/python"
"""The base Python."""
KERNEL = "/opt/kernel"
"""The kernel environment."""
SITE = "/opt/site"
"""Packages that were installed for this sandbox."""
FONTS = f"{KERNEL}/share/matplotlib-cache"
"""matplotlib's list of fonts, which takes it seconds to make."""
