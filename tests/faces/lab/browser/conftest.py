"""JupyterLab with the panel, and Debian's Chromium, for as long as the tests of this folder run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import machine
import pytest
from playwright.sync_api import Browser, Locator, Page, Playwright, expect, sync_playwright
from program import end_server, environment

from nbagent.session.manager import SessionManager

PICTURES = "NBAGENT_TEST_PICTURES"
"""The folder into which a person who runs this by hand has it save what it sees."""


ASSISTANT = "window.jupyterapp.pluginRegistry._plugins.get('@nbagent/panel:plugin').service"
"""What the panel works with, in a window."""


class Lab:
    """A JupyterLab, which can be killed and started again at the same address.

    Attributes:
        root: Its folder of files.
        url: Its address.
    """

    def __init__(self, home: Path, port: int, command: Sequence[str], given: dict[str, str]) -> None:
        self.root, self.url = home / "files", f"http://127.0.0.1:{port}"
        self._log, self._port, self._command, self._given = home / "log", port, command, given
        self.start()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with self._log.open("a") as log:
            self._server = subprocess.Popen(self._command, cwd=self.root, env=self._given, stdout=log, stderr=log)
        try:
            _wait(self._server, self._port, self._log)
        except BaseException:
            self.end()
            raise

    def kill(self) -> None:
        """Kill it, as a machine without memory does."""
        self._server.kill()
        self._server.wait()

    def end(self) -> None:
        """End it."""
        end_server(self._server)

    def open(self, browser: Browser, *, workspace: str, dark: bool = False) -> Panel:
        """A window of a workspace of its own, with the panel open."""
        context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="dark" if dark else "light")
        context.set_default_timeout(1000 * machine.WAIT)
        expect.set_options(timeout=1000 * machine.WAIT)
        panel = Panel(context.new_page())
        panel.page.goto(f"{self.url}/lab/workspaces/{workspace}")
        panel.ready()
        return panel


class Panel:
    """The panel in a window.

    Attributes:
        page: The window.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.place = page.locator(".nba-Panel")
        self.stop = self.place.get_by_role("button", name="Stop", exact=True)

    def command(self, name: str, **given: str) -> None:
        """Run a command of JupyterLab's, and wait for its end."""
        self.page.evaluate(
            "([name, given]) => window.jupyterapp.commands.execute(name, given).then(() => null)", [name, given]
        )

    def ready(self) -> None:
        """Wait until JupyterLab is there, and open the panel."""
        self.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
        self.command("nbagent:focus")

    def reload(self) -> None:
        """Load the page again, once JupyterLab has saved where what is."""
        name = self.page.url.partition("/workspaces/")[2].partition("/")[0]
        saved = "name => window.jupyterapp.serviceManager.workspaces.fetch(name).then(found => found.data"
        self.page.wait_for_function(f"{saved}['nbagent:panel']?.session)", arg=name)
        self.page.reload()
        self.ready()

    def choose(self, **choices: str) -> None:
        """Have new sessions begin with something."""
        self.page.evaluate(f"choices => {ASSISTANT}.choose(choices)", choices)

    def session_id(self) -> str:
        """The session that is open."""
        return str(self.page.evaluate(f"() => {ASSISTANT}.session.id"))

    def open(self, session: str) -> None:
        """Open a session by its id."""
        self.page.evaluate(f"id => void {ASSISTANT}.open(id)", session)

    def drop(self, *files: Path) -> None:
        """Drop files of the desktop onto the panel's title, as a person does."""
        box = self.place.locator(".nba-Header").bounding_box()
        assert box is not None
        data = {"items": [], "files": [str(each) for each in files], "dragOperationsMask": 1}
        devtools = self.page.context.new_cdp_session(self.page)
        for step in ("dragEnter", "dragOver", "drop"):
            place = {"x": box["x"] + 20, "y": box["y"] + box["height"] / 2}
            devtools.send("Input.dispatchDragEvent", {"type": step, **place, "data": data})

    def scroll(self, by: float) -> float:
        """Scroll the conversation by some pixels; returns how far it is from its beginning."""
        place = self.place.locator(".nba-Conversation")
        return float(place.evaluate("(place, by) => { place.scrollTop += by; return place.scrollTop }", by))

    def open_session(self, title: str) -> None:
        """Open one from the list."""
        self.place.get_by_label("All sessions").click()
        self.place.locator(".nba-Row button.nba-RowText", has_text=title).first.click()

    def cut(self) -> None:
        """Cut the connection of the session that is open; no new one is had until `mend`."""
        nowhere = "found.server.socketAddress = () => 'ws://127.0.0.1:9/nowhere'"
        self.page.evaluate(f"() => {{ const found = {ASSISTANT}; {nowhere}; found.session.channel.socket.close() }}")

    def mend(self) -> None:
        """Have connections again."""
        self.page.evaluate(f"() => {{ delete {ASSISTANT}.server.socketAddress }}")

    def ask(self, question: str) -> None:
        """Write a question, and send it."""
        self.question.fill(question)
        self.send()

    def send(self) -> None:
        """Send what is written, once the answer before has ended: a part of it may have been seen earlier."""
        self.place.get_by_role("button", name="Ask", exact=True).wait_for()
        self.question.press("Enter")

    @property
    def question(self) -> Locator:
        """Where a question is written."""
        return self.place.get_by_label("Your question")

    def picture(self, name: str) -> None:
        """Save what is seen, if a person asks for it."""
        if folder := os.environ.get(PICTURES):
            self.page.screenshot(path=f"{folder}/{name}.png")

    def close(self) -> None:
        """Close the window."""
        self.page.context.close()


@contextlib.contextmanager
def started(home: Path, *words: str, asks_for_news: bool = False, **more: str) -> Iterator[Lab]:
    """Start JupyterLab for a person who has nothing yet, with further arguments and environment variables."""
    root = home / "files"
    root.mkdir(parents=True, exist_ok=True)
    if not asks_for_news:
        settings = home / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    places = {
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "NBAGENT_STATE_DIR": home / "state",
    }
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"),
        *("--IdentityProvider.token=", f"--ServerApp.root_dir={root}", "--LabApp.expose_app_in_browser=True"),
        *("--LabApp.extension_manager=readonly", "--LabApp.news_url=None", *words),
    ]
    given = environment(**{name: str(place) for name, place in places.items()}, **more)
    lab = Lab(home, port, command, given)
    try:
        yield lab
    finally:
        lab.end()
        with ThreadPoolExecutor(1) as thread:  # in this one runs the loop of Playwright
            thread.submit(asyncio.run, _delete_all(home / "state")).result()


async def _delete_all(state: Path) -> None:
    manager = SessionManager(state_dir=state)
    await asyncio.gather(*(manager.delete(each.id, force=True) for each in await manager.list()))


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + machine.WAIT
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """What drives browsers; for one file, since no other test of this process can have an event loop meanwhile."""
    with sync_playwright() as made:
        yield made


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium."""
    made = machine.chromium(playwright)
    yield made
    made.close()


@pytest.fixture
def panel(lab: Lab, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Panel]:
    """A window of its own, of the JupyterLab that the file of tests has started."""
    panel = lab.open(chromium, workspace=request.node.name)
    yield panel
    panel.picture(f"end-{request.node.name}")
    panel.close()
