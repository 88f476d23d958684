"""The full engine: the contract, and what is particular to Docker."""

from __future__ import annotations

import docker
import pytest
from machine import works
from sandbox.contract import Holds

from nbagent.kernel.kernel import Kernel
from nbagent.sandbox.base import Engine


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Docker."""
    return works("docker")


class TestDocker(Holds):
    """The contract."""

    def process(self, kernel: Kernel) -> int:
        """The container's first process."""
        client = docker.APIClient()
        try:
            found = client.inspect_container(kernel.provisioner._container)  # type: ignore[attr-defined]
            return int(found["State"]["Pid"])
        finally:
            client.close()
