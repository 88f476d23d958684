"""What a Jupyter server, and with it JupyterLab, tells a person whose kernel can't start."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from tornado.web import HTTPError

from nbagent.core.errors import LimitUnenforceable
from nbagent.sandbox.provisioner import as_http_error

Ask = Callable[[str], tuple[int, dict[str, Any]]]


@pytest.fixture
def ask(folder: Path, home: Path) -> Iterator[Ask]:
    """Asks a server for a kernel by name, as JupyterLab does; returns the status and the answer."""
    # No runtime folder of the person's: its path must be short, and this one is thrown away.
    variables = {**os.environ, "DOCKER_HOST": "unix:///nowhere.sock", "JUPYTER_RUNTIME_DIR": str(home / "jupyter")}
    words = ["--no-browser", "--allow-root", "--port=0", "--ip=127.0.0.1", "--IdentityProvider.token=secret"]
    command = [sys.executable, "-m", "jupyter_server", *words, "--ServerApp.jpserver_extensions={}"]
    with subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.DEVNULL) as server:
        while (port := _port(home / "jupyter")) is None:
            assert server.poll() is None
            time.sleep(0.05)

        def ask(kernel: str) -> tuple[int, dict[str, Any]]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request(
                "POST", "/api/kernels", json.dumps({"name": kernel}), {"Authorization": "token secret"}
            )  # fmt: skip
            answer = connection.getresponse()
            value: dict[str, Any] = json.loads(answer.read())
            connection.close()
            return answer.status, value

        yield ask
        server.terminate()
        server.wait(timeout=60)


def _port(folder: Path) -> int | None:
    """Where a server listens that tells so in a file of this folder, which it writes before it does."""
    for file in folder.glob("jpserver-*.json"):
        with contextlib.suppress(ValueError, OSError):
            port: int = json.loads(file.read_text())["port"]
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
            return port
    return None


def test_the_page_is_told_why_a_kernel_can_t_start(ask: Ask) -> None:
    """The sentence and its mend, not "Unhandled error"; and no option of a command line, which JupyterLab has not."""
    status, answer = ask("nbagent-docker")
    assert status == 500
    assert answer["message"].startswith("No Docker daemon runs here.")
    assert "systemctl start docker" in answer["message"]
    assert "choose the kernel of the engine bubblewrap" in answer["message"]
    assert "--" not in answer["message"]


def test_the_error_is_nbagent_s_own_and_the_server_s() -> None:
    """A client in Python catches it by its class, and whatever it says is no format."""
    error = as_http_error(LimitUnenforceable("50% of it.", mend="--accept memory", elsewhere='accept = ["memory"]'))
    assert isinstance(error, LimitUnenforceable)
    assert isinstance(error, HTTPError)
    assert str(error) == '50% of it. accept = ["memory"]'
    assert (error.log_message or "") % error.args == str(error)
    assert as_http_error(error) is error


def test_settings_accept_for_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person accepted for good holds for the kernels of JupyterLab too, which has no other way to say it."""
    monkeypatch.setattr("nbagent.sandbox.limits.cgroup.find", lambda: None)
    manager = KernelManager(kernel_name="nbagent-bubblewrap")
    with pytest.raises(LimitUnenforceable, match="memory") as caught:
        manager.start_kernel()
    assert 'accept = ["memory"]' in str(caught.value)
    assert "--accept" not in str(caught.value)
    monkeypatch.setenv("NBAGENT_ACCEPT", '["memory"]')
    manager = KernelManager(kernel_name="nbagent-bubblewrap")
    manager.start_kernel()
    manager.shutdown_kernel(now=True)
