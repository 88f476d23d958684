"""Outputs and words that try to reach somebody, or to become a part of the page: in the panel nothing of it happens."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import machine
import pytest
from faces.lab.browser.conftest import ASSISTANT, FLAGS, Lab, started
from faces.lab.browser.notebooks import IDLE, beside, sources
from playwright.sync_api import Browser, Playwright
from safety.sanitize.test_browser import END, Listener, tried

from nbagent.core.events import Answered, Asked, CellFinished, CellStarted, Usage
from nbagent.core.session_log import SessionLog

MARKS = re.compile(r"leakx\d+x|leaky\d+y|h\d+\.invalid|m\d+\.invalid")
FORBIDDEN = (
    "script, iframe, object, embed, form, link, meta, base, video, audio, svg image, svg use, [srcset], "
    "[style*='url('], [onerror], [onload], [onclick], [onfocus], [ping], [data-commandlinker-command], "
    "a[href^='javascript:' i], .nba-Approval, .jp-Dialog, mjx-container [href]"
)
"""What must not be there, by a selector; looked for in outputs and words, which are not JupyterLab's own."""
TURN = 20_000
FORMULA = r"$\style{cursor: url(http://h900.invalid/leakx900x), auto}{x}$"
"""Its cursor is loaded once it stands in the page."""
SHOWN = [{"text/html": each} for each in (f"<p>{FORMULA}</p>", FORMULA.replace("style", "st<wbr>yle"))]
SHOWN += [{"text/latex": FORMULA}]


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    """The server of all names."""
    with contextlib.closing(Listener()) as made:
        yield made


@pytest.fixture(scope="module")
def browser(listener: Listener, playwright: Playwright) -> Iterator[Browser]:
    """A browser for which every name leads to the listener."""
    rules = f"--host-resolver-rules=MAP * 127.0.0.1:{listener.port}, EXCLUDE 127.0.0.1"
    made = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=[*FLAGS, rules])
    yield made
    made.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab that has one session, in which everything was tried."""
    home = tmp_path_factory.mktemp("hostile")
    with contextlib.closing(_log(home / "state")) as log:
        log.emit(Asked(turn=TURN, question="x", model="m"))
        log.emit(CellStarted(cell=TURN, turn=TURN, code="show()"))
        outputs = [{"output_type": "display_data", "data": each, "metadata": {}} for each in SHOWN]
        log.emit(
            CellFinished(
                cell=TURN, turn=TURN, code="show()", status="ok", outputs=outputs, execution_count=1, duration=0.1
            )
        )
        log.emit(Answered(turn=TURN, text="x", success=True, attempts=1, usage=Usage(1, 1, 1), seconds=0.1))
        for event in tried():
            log.emit(event)
    with started(home) as lab:
        yield lab


def _log(state: Path) -> SessionLog:
    state.mkdir(parents=True)
    return SessionLog(state, "hostile")


def test_nothing_fires(lab: Lab, browser: Browser, listener: Listener) -> None:
    """The whole conversation is looked at from its end to its beginning: nobody hears of it, and no script is in it.

    Nor do the cells that go into a notebook load anything there, where JupyterLab itself shows them.
    """
    panel = lab.open(browser, workspace="hostile")
    asked: list[str] = []
    panel.page.on("request", lambda request: asked.append(request.url))
    panel.open("hostile")
    panel.place.get_by_text(END).last.wait_for()
    found = []
    while True:
        panel.page.wait_for_timeout(2_000 * machine.pace())
        parts = panel.page.locator(f".nba-Outputs :is({FORBIDDEN}), .nba-Markdown :is({FORBIDDEN})")
        found += parts.evaluate_all("parts => parts.map(each => each.outerHTML)")
        if panel.scroll(-1200) == 0:
            break
    beside(lab, panel, "into.ipynb", "1")
    panel.page.wait_for_function(f"{ASSISTANT}.documents.state('hostile', {TURN}).state === 'ready'")
    panel.page.evaluate(f"{ASSISTANT}.documents.insert('hostile', {TURN})")
    panel.page.locator(".jp-Notebook mjx-container").first.wait_for(state="attached")
    panel.page.wait_for_timeout(20_000 * machine.pace())
    seen = [each for each in (*asked, *listener.heard) if not each.startswith("data:")]
    assert sorted({mark for each in seen for mark in MARKS.findall(each)}) == []
    assert found == []
    panel.picture("hostile")
    panel.close()


def test_a_sandboxed_kernel_does_nothing_to_the_page(lab: Lab, browser: Browser) -> None:
    """It runs and loads nothing there, and puts no cells into the notebook, whose next kernel may not be isolated.

    JupyterLab draws charts, Markdown and HTML with pictures of outputs that it doesn't trust, too. The person is told
    once that something is not drawn, and which setting trusts it.
    """
    panel = lab.open(browser, workspace="planted")
    asked: list[str] = []
    panel.page.on("request", lambda request: asked.append(request.url))
    bind = {"input": "text", "style": "content-visibility: auto", "oncontentvisibilityautostatechange": "ran = 3"}
    chart = {"width": 9, "height": 9, "signals": [{"name": "s", "value": "", "bind": bind}]}
    shown = [
        {"application/vnd.vega.v5+json": chart, "text/plain": "a chart"},
        {"text/html": f"<h1>a<img src=http://h901.invalid></h1><video src=http://h902.invalid></video>{FORMULA}"},
        {"text/markdown": f"# b ![](http://h3.invalid)\n{FORMULA}\n```mermaid\ngraph LR\nA[<img src=//h4.invalid>]"},
    ]
    code = (
        "from comm import create_comm\ncomm = create_comm(target_name='nbagent.cells')\n"
        "comm.send({'cells': ['planted']})\ncreate_comm(target_name='seen')\n"
        "from IPython.display import HTML, Javascript, display\nget_ipython().set_next_input('planted')\n"
        "display(Javascript('window.ran = 1'), HTML('<img src=x onerror=\"window.ran = 2\">'))\n"
        f"for each in {shown}:\n    display(each, raw=True)\nprint('sent', 'all')"
    )
    beside(lab, panel, "planted.ipynb", code, kernel="nbagent-bubblewrap")
    panel.page.wait_for_function(IDLE)
    seen = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.registerCommTarget"
    panel.page.evaluate(f"{seen}('seen', () => {{ window.ran = 4 }})")
    panel.command("notebook:run-cell")
    panel.page.locator(".jp-OutputArea-output").get_by_text("sent all").wait_for()
    told = panel.page.locator(".Toastify__toast", has_text='"Trust what sandboxed kernels show"')
    told.wait_for()
    panel.picture("distrusted")
    told.get_by_role("button", name="Settings").click()
    panel.page.get_by_text("Trust what sandboxed kernels show", exact=True).wait_for()
    panel.command("docmanager:open", path="planted.ipynb")
    panel.page.wait_for_timeout(5_000 * machine.pace())
    assert sources(panel) == [code]
    assert panel.page.evaluate("window.ran") is None
    assert [each for each in asked if MARKS.search(each)] == []
    panel.close()


def test_a_figure_of_plotly_without_plotly_beside_jupyterlab_says_what_is_missing(lab: Lab, browser: Browser) -> None:
    """The person is told what to install; Plotly's first script, of which nothing is seen, is no chart."""
    panel = lab.open(browser, workspace="plotly")
    figure = {"application/vnd.plotly.v1+json": {"data": [], "layout": {}}, "text/html": "<p><script>1</script></p>"}
    first = {"text/html": "\n  <script>\nwindow.PlotlyConfig = {MathJaxConfig: 'local'};</script><script>1</script>"}
    code = f"for each in ({first}, {figure}):\n    display(each, raw=True)\nprint('sent', 'all')"
    beside(lab, panel, "plotly.ipynb", code, kernel="nbagent-bubblewrap")
    panel.page.wait_for_function(IDLE)
    panel.command("notebook:run-cell")
    panel.page.locator(".jp-OutputArea-output").get_by_text("sent all").wait_for()
    panel.page.locator(".Toastify__toast", has_text="pip install plotly").wait_for()
    assert panel.page.locator(".Toastify__toast", has_text="not drawn").count() == 0
    panel.close()
