"""What the panel says goes through JupyterLab's translator, also what it says of a server that can't be asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from faces.lab.browser.conftest import ASSISTANT, Lab, Panel, started
from playwright.sync_api import Browser, expect
from program import replies

SOURCES = Path(__file__).parents[4] / "panel" / "src"
MARK = "!!"
"""What JupyterLab puts before each sentence that it was given to translate, if it is set to show that."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab whose server takes small files only."""
    home = tmp_path_factory.mktemp("translated")
    name = replies(home / "replies.jsonl", "First.")
    with started(home, "--NbagentApp.max_upload_mb=1", NBAGENT_MODEL=name, NBAGENT_ENGINE="bubblewrap") as lab:
        yield lab


@pytest.fixture
def marked(lab: Lab, chromium: Browser) -> Iterator[Panel]:
    """A window in which each translated sentence is marked."""
    panel = lab.open(chromium, workspace="marked")
    panel.page.evaluate(
        """set => window.jupyterapp.serviceManager.settings
            .save('@jupyterlab/translation-extension:plugin', set).then(() => null)""",
        json.dumps({"displayStringsPrefix": True}),
    )
    panel.page.reload()
    panel.ready()
    panel.place.get_by_role("heading", name=f"{MARK}Ask about your data").wait_for()
    yield panel
    panel.close()


def _told(panel: Panel, message: str, mend: str) -> None:
    """Both sentences of the banner are there, and marked."""
    expect(panel.place.get_by_role("alert")).to_contain_text(f"{MARK}{message} {MARK}{mend}")


def test_what_goes_wrong_is_translated(marked: Panel) -> None:
    """A large file, a server that is away or of another age, a connection that is lost, and a login that has ended."""
    file = {"name": "large.bin", "mimeType": "application/octet-stream", "buffer": b"x" * 1_100_000}
    marked.place.locator("input[type=file]").set_input_files(files=[file])  # type: ignore[list-item]
    _told(marked, "Larger than the 1 MB that can be uploaded: large.bin.", "Put it into the list of files")
    marked.place.get_by_label("Dismiss").click()
    marked.place.get_by_label(f"{MARK}Your question").fill("One?")
    marked.place.get_by_label(f"{MARK}Your question").press("Enter")
    marked.place.get_by_text("First.").wait_for()
    marked.page.route("**/nbagent/api/status*", lambda route: route.abort())
    marked.page.evaluate(f"() => {ASSISTANT}.machine.load()")
    _told(marked, "The Jupyter server does not answer.", "The panel goes on by itself once it does.")
    marked.page.unroute("**/nbagent/api/status*")
    marked.place.get_by_role("button", name=f"{MARK}Look again").click()
    expect(marked.place.get_by_role("alert")).to_have_count(0)
    marked.cut()
    _told(marked, "The connection to the server was lost.", "What ran goes on")
    marked.page.route("**/nbagent/api/**", lambda route: route.fulfill(status=403, body="{}"))
    _told(marked, "Your login to this Jupyter server has expired.", "Load the page again to log in.")
    marked.page.route("**/nbagent/api/**", lambda route: route.fulfill(status=500, body="no JSON"))
    marked.page.evaluate(f"() => {ASSISTANT}.machine.load()")
    expect(marked.place.get_by_role("alert")).to_contain_text(f"{MARK}The Jupyter server answered with 500.")


def test_no_problem_is_told_untranslated() -> None:
    """A sentence that the panel itself makes is no literal; no translated one is put together of pieces."""
    literal, piece = re.compile(r"new Problem\(\s*(?:`|'[^']|\"[^\"])"), re.compile(r"__\(\s*['\"`]\s")
    texts = {path.name: path.read_text() for path in [*SOURCES.rglob("*.ts"), *SOURCES.rglob("*.tsx")]}
    assert [name for name, text in texts.items() if literal.search(text) or piece.search(text)] == []
