"""Exports are opened in a real browser, in JupyterLab and as nbconvert's HTML, and nobody hears of it.

Every name leads to a server that listens; every address that a page asks for is seen. The same cases, not sanitized,
are the control: there the server hears of many.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page, sync_playwright
from program import end_server
from safety.sanitize import cases

from nbagent.core.events import Answered, Asked, CellFinished, CellStarted, Event, ModelReplied, Record, Usage
from nbagent.notebook.build import build
from nbagent.notebook.record import record

QUERY = "of-this-test"
END = "the-end-of-all-cases"
TOGETHER = 20
"""Outputs of one cell: a cell costs a browser more than an output."""
PLAIN = {"mathjax_url": "", "require_js_url": "", "jquery_url": "", "mermaid_js_url": ""}
"""What nbconvert's own template loads."""


class Listener:
    """A server to which all names lead; remembers the first bytes of each connection, and serves nothing."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Hear no more."""
        # A thread that accepts holds the socket open: this wakes it.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(caller,), daemon=True).start()

    def _answer(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(OSError):
            caller.settimeout(5)
            self.heard.append(caller.recv(4096).decode("latin-1"))
            caller.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    """The server of all names."""
    made = Listener()
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(listener: Listener) -> Iterator[Browser]:
    """Debian's Chromium."""
    rules = f"--host-resolver-rules=MAP * 127.0.0.1:{listener.port}, EXCLUDE 127.0.0.1"
    with sync_playwright() as playwright:
        made = machine.chromium(playwright, rules)
        yield made
        made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the notebooks: the export, and the same not sanitized."""
    made = tmp_path_factory.mktemp("opened")
    nbformat.write(exported(), made / "export.ipynb")
    nbformat.write(control(), made / "control.ipynb")
    return made


@pytest.fixture(scope="module")
def lab(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """JupyterLab's address, with its token. It knows no kernel, and renders cells that are not in view too."""
    home = tmp_path_factory.mktemp("lab")
    settings = home / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    (home / "runtime").mkdir()
    places = {
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
    }
    options = [
        "--no-browser",
        "--allow-root",
        "--ServerApp.port=0",
        f"--IdentityProvider.token={QUERY}",
        f"--ServerApp.root_dir={folder}",
        "--KernelSpecManager.allowed_kernelspecs=none",
        "--KernelSpecManager.ensure_native_kernel=False",
        "--LabApp.extension_manager=readonly",
        "--LabApp.news_url=None",
    ]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            env=os.environ | {name: str(place) for name, place in places.items()},
            stdout=log,
            stderr=log,
        )
        try:
            yield _address(server, home)
        finally:
            end_server(server)


def _address(server: subprocess.Popen[bytes], home: Path) -> str:
    deadline = time.monotonic() + machine.WAIT
    while time.monotonic() < deadline and server.poll() is None:
        for file in (home / "runtime").glob("jpserver-*.json"):
            with contextlib.suppress(ValueError, OSError):
                port = json.loads(file.read_text())["port"]
                socket.create_connection(("127.0.0.1", port)).close()
                return f"http://127.0.0.1:{port}"
        time.sleep(0.1)
    raise AssertionError((home / "log").read_text())


def outputs() -> list[dict[str, Any]]:
    """The cases as outputs; `leakx7x` is the mark of the eighth."""
    found = []
    for number, bundle in enumerate(cases.bundles()):
        data = cases.fill(bundle, h=f"h{number}.invalid", n=f"leakx{number}x")
        metadata = {"isolated": True, "trusted": True}
        found.append({"output_type": "display_data", "data": {**data, "text/plain": "plain"}, "metadata": metadata})
    return found


def texts() -> list[str]:
    """The cases that Markdown cells hold: all Markdown, and some of the HTML, of which nothing is left there."""
    found = [*cases.MARKDOWN, *cases.HTML.strip().split("\n")[::6]]
    return [cases.fill(text, h=f"m{number}.invalid", n=f"leaky{number}y") for number, text in enumerate(found)]


def tried() -> list[Event]:
    """The events of a session in which code, a model and a question tried it all."""
    events: list[Event] = []
    for number in range(1, len(outputs()) // TOGETHER + 2):
        events.append(CellStarted(cell=number, turn=0, code="show()"))
        shown = outputs()[(number - 1) * TOGETHER : number * TOGETHER]
        events.append(CellFinished(cell=number, status="ok", outputs=shown, execution_count=number, duration=0.1))
    for number, text in enumerate(texts(), start=1):
        said = [text if number % 3 == each else "x" for each in range(3)]
        done = Answered(turn=number, text=said[2], success=True, attempts=1, usage=Usage(1, 1, 1), seconds=0.1)
        remarks = [ModelReplied(turn=number, text=text, tools=["python"])] if number % 3 == 1 else []
        events += [Asked(turn=number, question=said[0], model="m"), *remarks, done]
    return [*events, Asked(turn=10_000, question=END, model="m")]


def exported() -> Any:
    """The notebook of that session."""
    made = build(record(Record(number, 0.0, event) for number, event in enumerate(tried(), start=1)))
    nbformat.validate(made)
    written = json.dumps(made)
    assert all(f"leaky{number}y" in written for number in range(len(cases.MARKDOWN))), "a case is missing"
    return nbformat.from_dict(made)


def control() -> Any:
    """The same, as it is without a sanitizer."""
    v4 = nbformat.v4
    # nbconvert refuses attachments that are not there.
    shown = [
        nbformat.from_dict({**each, "metadata": {}}) for each in outputs() if "attachment:" not in str(each["data"])
    ]
    parts = [shown[at : at + TOGETHER] for at in range(0, len(shown), TOGETHER)]
    cells = [v4.new_code_cell("show()", outputs=part) for part in parts]
    cells += [v4.new_markdown_cell(text) for text in [*texts(), END] if "attachment:" not in text]
    return v4.new_notebook(cells=cells)


def opened(browser: Browser, listener: Listener, address: str, *, selector: str = "") -> dict[str, str]:
    """The marks of the cases that something was asked for when a page was opened, each with what was asked.

    A selector is waited for; without one the page may lead elsewhere by itself.
    """
    listener.heard.clear()
    asked: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    if selector:
        page.wait_for_selector(selector, state="attached", timeout=1000 * machine.WAIT)
    _settle(page, asked)
    page.close()
    seen = [each for each in (*asked, *listener.heard) if not each.startswith("data:")]
    return {
        mark: each for each in seen for mark in re.findall(r"leakx\d+x|leaky\d+y|h\d+\.invalid|m\d+\.invalid", each)
    }


def _settle(page: Page, asked: list[str]) -> None:
    """Until nothing more is asked for: libraries for mathematics and charts are loaded when they are needed."""
    quiet = 0
    while quiet < 3:
        before = len(asked)
        page.wait_for_timeout(10_000 * machine.pace())
        quiet = quiet + 1 if len(asked) == before else 0


def test_jupyterlab_asks_nobody(browser: Browser, listener: Listener, lab: str) -> None:
    """An export that nobody trusts loads nothing in JupyterLab; not sanitized, it does."""
    heard = {}
    for name in ("control", "export"):
        # A workspace of its own: else the one that was open opens again.
        address = f"{lab}/lab/workspaces/{name}/tree/{name}.ipynb?token={QUERY}"
        heard[name] = opened(browser, listener, address, selector=f"text={END}")
    assert len(heard["control"]) > 30, heard
    assert heard["export"] == {}


def test_a_page_of_nbconvert_asks_nobody(browser: Browser, listener: Listener, folder: Path) -> None:
    """An export that is made a web page loads nothing; not sanitized, it does."""
    for name, expected in (("control", 100), ("export", 0)):
        page, _ = HTMLExporter(**PLAIN).from_filename(str(folder / f"{name}.ipynb"))
        (folder / f"{name}.html").write_text(page)
        heard = opened(browser, listener, (folder / f"{name}.html").as_uri())
        assert len(heard) > expected if expected else heard == {}, heard
