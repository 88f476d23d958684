"""The embedded engine: the contract, and what is particular to bubblewrap."""

from __future__ import annotations

import pytest
from machine import works
from sandbox.contract import Holds

from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.base import Engine


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Bubblewrap."""
    return works("bubblewrap")


class TestBubblewrap(Holds):
    """The contract."""

    def process(self, kernel: Kernel) -> int:
        """Bubblewrap itself, which joined the group before it became it."""
        return kernel.provisioner._process.pid  # type: ignore[attr-defined,no-any-return]
