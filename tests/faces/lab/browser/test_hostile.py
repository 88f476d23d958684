"""Outputs and words that try to reach somebody, or to become a part of the page: in the panel nothing of it happens."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import machine
import nbformat
import pytest
from faces.lab.browser.conftest import ASSISTANT, Lab, started
from faces.lab.browser.notebooks import CELLS, IDLE, beside, cells, sources
from playwright.sync_api import Browser, Playwright
from safety.sanitize.test_browser import END, Listener, tried

from nbagent.core.events import Answered, Asked, CellFinished, CellStarted, Usage
from nbagent.core.folders import RESULTS
from nbagent.core.session_log import SessionLog
from nbagent.faces.lab.kernel_messages import SETTING

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
BIND = {"input": "text", "style": "content-visibility: auto", "oncontentvisibilityautostatechange": "ran = 3"}
CHART = {"width": 9, "height": 9, "signals": [{"name": "s", "value": "", "bind": BIND}]}
"""A chart of Vega's that runs a script, in a notebook that is not trusted, too."""
DRAWING = "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'><rect width='40' height='40' fill='teal'/>"
DRAWING += "<image href='http://h905.invalid/leakx905x' onload='window.ran = 8'/></svg>"
FRONT = "window.jupyterapp.shell.currentWidget"
WIDGETS = "window.jupyterapp.pluginRegistry._plugins.get('@jupyter-widgets/jupyterlab-manager:plugin').service"
"""The modules of widgets that JupyterLab has. There are some whose models run a script that they hold."""


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    """The server of all names."""
    with contextlib.closing(Listener()) as made:
        yield made


@pytest.fixture(scope="module")
def browser(listener: Listener, playwright: Playwright) -> Iterator[Browser]:
    """A browser for which every name leads to the listener."""
    rules = f"--host-resolver-rules=MAP * 127.0.0.1:{listener.port}, EXCLUDE 127.0.0.1"
    made = machine.chromium(playwright, rules)
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
        log.emit(Answered(turn=TURN, text=FORMULA, success=True, attempts=1, usage=Usage(1, 1, 1), seconds=0.1))
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

    JupyterLab draws charts, Markdown and HTML with pictures of outputs that it doesn't trust, too. The output says what
    is not drawn, and which setting trusts it.
    """
    panel = lab.open(browser, workspace="planted")
    asked: list[str] = []
    panel.page.on("request", lambda request: asked.append(request.url))
    shown = [
        {"application/vnd.vega.v5+json": CHART, "text/plain": "a chart"},
        {"text/html": f"<h1>a<img src=http://h901.invalid></h1><video src=http://h902.invalid></video>{FORMULA}"},
        {"image/svg+xml": DRAWING},
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
    seen = f"{FRONT}.sessionContext.session.kernel.registerCommTarget"
    panel.page.evaluate(f"{seen}('seen', () => {{ window.ran = 4 }})")
    panel.command("notebook:run-cell")
    panel.page.locator(".jp-OutputArea-output").get_by_text("sent all").wait_for()
    told = panel.page.locator(".jp-OutputArea-output", has_text="application/vnd.vega.v5+json")
    told.get_by_text(f'"{SETTING}" in Settings').wait_for()
    panel.page.locator(".jp-OutputArea-output img[src^='data:image/svg']").wait_for()
    panel.picture("distrusted")
    panel.page.wait_for_timeout(5_000 * machine.pace())
    assert sources(panel) == [code]
    assert panel.page.evaluate("window.ran") is None
    assert [each for each in asked if MARKS.search(each)] == []
    panel.close()


def test_outputs_stay_those_of_a_sandboxed_kernel(lab: Lab, browser: Browser) -> None:
    """They do nothing to the page in another notebook, nor once theirs has another kernel, until it runs the cell.

    JupyterLab draws charts and loads pictures from elsewhere in outputs that it doesn't trust, too.
    """
    panel = lab.open(browser, workspace="moved")
    asked: list[str] = []
    panel.page.on("request", lambda request: asked.append(request.url))
    shown = [{"application/vnd.vega.v5+json": CHART}, {"text/markdown": "![](http://h5.invalid)"}]
    code = f"for each in {shown}:\n    display(each, raw=True)\nprint('sent', 'all')"
    beside(lab, panel, "moved.ipynb", code, kernel="nbagent-bubblewrap")
    panel.page.wait_for_function(IDLE)
    panel.command("notebook:run-cell")
    panel.page.locator(".jp-OutputArea-output:visible").get_by_text("sent all").wait_for()
    panel.command("notebook:copy-cell")
    beside(lab, panel, "another.ipynb", "1")
    panel.command("notebook:paste-cell-below")
    panel.page.locator(".jp-OutputArea-output:visible").get_by_text("sent all").wait_for()
    panel.page.wait_for_timeout(3_000 * machine.pace())
    panel.command("docmanager:open", path="moved.ipynb")
    panel.page.evaluate(f"{FRONT}.sessionContext.changeKernel({{name: 'python3'}}).then(() => null)")
    panel.page.wait_for_function(IDLE)
    panel.command("notebook:create-output-view")  # draws it again
    panel.page.wait_for_timeout(3_000 * machine.pace())
    panel.command("docmanager:open", path="moved.ipynb")
    panel.command("docmanager:save")
    panel.page.evaluate(f"{FRONT}.dispose()")
    panel.command("docmanager:open", path="moved.ipynb")
    panel.page.locator(".jp-OutputArea-output:visible").get_by_text("sent all").wait_for()
    panel.page.wait_for_timeout(3_000 * machine.pace())
    assert panel.page.evaluate("window.ran") is None
    assert [each for each in asked if MARKS.search(each)] == []
    panel.page.wait_for_function(IDLE)
    script = "from IPython.display import Javascript\nJavascript('window.ran = 5')"
    panel.page.evaluate(f"code => {FRONT}.content.widgets[0].model.sharedModel.setSource(code)", script)
    panel.command("notebook:run-cell")
    panel.page.wait_for_function("window.ran === 5")
    panel.close()


def test_replies_of_a_sandboxed_kernel_do_nothing(lab: Lab, browser: Browser) -> None:
    """Nor do they over other connections: JupyterLab makes links in its menus of them, and draws some as trusted.

    What a kernel says of its language is saved in the notebook, and names a module that an export imports on the host.
    """
    panel = lab.open(browser, workspace="replies")
    hostile = (
        "kernel = get_ipython().kernel\n"
        "found = {'text/plain': 'a', 'text/html': '<img src=x onerror=\"ran = 6\">'}\n"
        "kernel.do_inspect = lambda *_, **__: {'status': 'ok', 'found': True, 'metadata': {}, 'data': found}\n"
        "kernel.help_links = [{'text': 'Help', 'url': 'javascript:ran = 7', 'newBrowserTab': True}]\n"
        "kernel.language_info = {**kernel.language_info, 'nbconvert_exporter': 'nbagent-output.planted.Run'}\n"
    )
    beside(lab, panel, "replies.ipynb", hostile, kernel="nbagent-bubblewrap")
    panel.page.wait_for_function(IDLE)
    panel.command("notebook:run-cell")
    panel.page.wait_for_function(f"{FRONT}.content.widgets[0].model.executionCount === 1")
    found = panel.page.evaluate(
        f"""async () => {{
          const {{ kernel }} = {FRONT}.sessionContext.session;
          const {{ kernels }} = window.jupyterapp.serviceManager;
          const more = [kernels.connectTo({{ model: kernel.model }}), kernel.clone({{ handleComms: true }})];
          const found = [];
          for (const each of [kernel, ...more]) {{
            const {{ content }} = await each.requestInspect({{ code: 'x', cursor_pos: 1, detail_level: 0 }});
            const comms = await each.requestCommInfo({{ target_name: 'jupyter.widget' }});
            found.push([Object.keys(content.data), comms.content.comms]);
          }}
          for (const each of more) {{
            const {{ help_links, language_info }} = await each.info;
            found.push([help_links, language_info.nbconvert_exporter]);
            each.dispose();
          }}
          return found;
        }}"""
    )
    assert found == [[["text/plain"], {}]] * 3 + [[[], "python"]] * 2
    panel.close()


def test_a_printed_notebook_loads_nothing(lab: Lab, browser: Browser, listener: Listener) -> None:
    """JupyterLab prints what nbconvert makes of it, and nobody cleans that."""
    panel = lab.open(browser, workspace="printed")
    asked: list[str] = []
    panel.page.on("request", lambda request: asked.append(request.url))
    html = "<link rel=preconnect href=http://h71.invalid><img src=http://h71.invalid>"
    html += "<style>@import 'http://h72.invalid'</style><svg><image href=http://h73.invalid></svg>"
    beside(lab, panel, "printed.ipynb", f"display({{'text/html': {html!r}}}, raw=True)", kernel="nbagent-bubblewrap")
    panel.page.wait_for_function(IDLE)
    panel.command("notebook:run-cell")
    panel.page.wait_for_function(f"{FRONT}.content.widgets[0].model.executionCount === 1")
    panel.page.evaluate("void window.jupyterapp.commands.execute('apputils:print')")
    printed = panel.page.locator("iframe[sandbox='allow-modals allow-same-origin']")
    printed.wait_for(state="attached")
    panel.page.wait_for_timeout(5_000 * machine.pace())
    assert "<link" not in (printed.get_attribute("srcdoc") or "")
    lookups = panel.page.locator("meta[http-equiv='x-dns-prefetch-control'][content='off']")
    assert lookups.count() == 1  # of names in links that nobody has followed
    assert any("/nbconvert/html/" in each for each in asked)
    assert [each for each in listener.heard if re.search(r"h7[123]\.invalid", each)] == []
    panel.close()


def test_what_code_has_saved_does_nothing(lab: Lab, browser: Browser) -> None:
    """A notebook in the folder of results was made by nobody else: what it shows is not trusted, its words neither.

    Charts that were saved there are opened as text, and no link leads to the server.
    """
    panel = lab.open(browser, workspace="result")
    asked: list[str] = []
    panel.page.on("request", lambda request: asked.append(request.url))
    shown = [{"application/vnd.vega.v5+json": CHART, "text/plain": "x"}, {"text/markdown": "![](http://h6.invalid)"}]
    outputs = [nbformat.v4.new_output("display_data", data=each) for each in shown]
    both = [
        nbformat.v4.new_code_cell("1", outputs=outputs),
        nbformat.v4.new_markdown_cell("# end ![](http://h6.invalid)\n[words](words.md)"),
    ]
    spec = {"name": "nbagent-bubblewrap", "display_name": "Python 3", "language": "python"}
    (lab.root / RESULTS).mkdir(exist_ok=True)
    made = nbformat.v4.new_notebook(cells=both, metadata={"kernelspec": spec})
    nbformat.write(made, lab.root / RESULTS / "made.ipynb")
    panel.command("docmanager:open", path=f"{RESULTS}/made.ipynb", factory="Notebook")
    panel.page.get_by_role("heading", name="end").first.wait_for()
    panel.page.evaluate(f"{FRONT}.content.activeCellIndex = 0")
    panel.command("notebook:copy-cell")
    beside(lab, panel, "copied.ipynb", "1")
    panel.command("notebook:paste-cell-below")
    panel.page.wait_for_function(f"() => {CELLS}[1]?.outputs?.length === 2")
    assert [list(each["data"]) for each in cells(panel)[1]["outputs"]] == [["text/plain"], ["text/markdown"]]
    for name in ("chart.vg", "chart.vl.json"):
        schema = f"https://vega.github.io/schema/vega{'-lite' * ('vl' in name)}/v5.json"
        (lab.root / RESULTS / name).write_text(json.dumps({"$schema": schema, **CHART}))
        panel.command("docmanager:open", path=f"{RESULTS}/{name}")
        panel.page.locator(".jp-FileEditor:visible").get_by_text("content-visibility").wait_for()
    (lab.root / RESULTS / "words.md").write_text("# words ![](http://h6.invalid)")
    panel.command("docmanager:open", path=f"{RESULTS}/made.ipynb")
    assert panel.page.locator(".jp-Notebook:visible").get_by_role("link", name="words").count() == 0
    panel.command("docmanager:open", path=f"{RESULTS}/words.md")
    panel.page.locator(":is(.jp-FileEditor, .jp-MarkdownViewer):visible").get_by_text("words").first.wait_for()
    panel.page.wait_for_timeout(5_000 * machine.pace())
    assert panel.page.evaluate("window.ran") is None
    assert [each for each in asked if MARKS.search(each)] == []
    panel.close()


def test_no_address_draws_what_code_has_saved(lab: Lab, browser: Browser) -> None:
    """An address in Notebook 7, or a saved layout, names what draws a file, whatever its ending: text is shown."""
    panel = lab.open(browser, workspace="addressed")
    (lab.root / RESULTS).mkdir(exist_ok=True)
    schema = "https://vega.github.io/schema/vega/v5.json"
    (lab.root / RESULTS / "addressed.txt").write_text(json.dumps({"$schema": schema, **CHART}))
    for factory in ("Vega5", "VegaLite5", "Markdown Preview"):
        panel.command("docmanager:open", path=f"{RESULTS}/addressed.txt", factory=factory)
    panel.page.locator(".jp-FileEditor:visible").get_by_text("content-visibility").wait_for()
    panel.page.wait_for_timeout(3_000 * machine.pace())
    assert panel.page.evaluate("window.ran") is None
    assert panel.page.locator(".jp-MimeDocument, .jp-MarkdownViewer").count() == 0
    panel.close()


def test_widgets_in_a_notebook_of_a_sandboxed_kernel_are_not_restored(lab: Lab, browser: Browser) -> None:
    """JupyterLab restores those of a notebook that nobody trusts, too, and the models of some modules run scripts."""
    panel = lab.open(browser, workspace="widgets")
    panel.page.evaluate(
        f"""() => {{
          class Made {{
            static _deserialize_state({{ number }}) {{ (window.made ??= []).push(number) }}
          }}
          {WIDGETS}.registerWidget({{ name: 'made', version: '1.0.0', exports: {{ Made }} }});
        }}"""
    )
    (lab.root / RESULTS).mkdir(exist_ok=True)
    places = [
        ("w1.ipynb", "nbagent-bubblewrap"),
        (f"{RESULTS}/w2.ipynb", "nbagent-bubblewrap"),
        ("w3.ipynb", "python3"),
    ]
    for number, (path, kernel) in enumerate(places, start=1):
        model = {"model_name": "Made", "model_module": "made", "model_module_version": "1.0.0"}
        state = {"state": {"w": {**model, "state": {"number": number}}}, "version_major": 2, "version_minor": 0}
        facts = {"kernelspec": {"name": kernel, "display_name": "x", "language": "python"}}
        facts["widgets"] = {"application/vnd.jupyter.widget-state+json": state}
        nbformat.write(
            nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")], metadata=facts), lab.root / path
        )
        panel.command("docmanager:open", path=path, factory="Notebook")
        panel.page.wait_for_function(IDLE)
    panel.page.wait_for_function("window.made?.includes(3)")  # that of nobody who is under suspicion
    panel.page.wait_for_timeout(3_000 * machine.pace())
    assert panel.page.evaluate("window.made") == [3]
    panel.close()


def test_a_figure_of_plotly_without_plotly_beside_jupyterlab_says_what_is_missing(lab: Lab, browser: Browser) -> None:
    """It stands where the figure would; Plotly's first script, of which nothing is seen, is no chart."""
    panel = lab.open(browser, workspace="plotly")
    figure = {"application/vnd.plotly.v1+json": {"data": [], "layout": {}}, "text/html": "<p><script>1</script></p>"}
    first = {"text/html": "\n  <script>\nwindow.PlotlyConfig = {MathJaxConfig: 'local'};</script><script>1</script>"}
    code = f"for each in ({first}, {figure}):\n    display(each, raw=True)\nprint('sent', 'all')"
    beside(lab, panel, "plotly.ipynb", code, kernel="nbagent-bubblewrap")
    panel.page.wait_for_function(IDLE)
    panel.command("notebook:run-cell")
    panel.page.locator(".jp-OutputArea-output").get_by_text("sent all").wait_for()
    panel.page.locator(".jp-OutputArea-output").get_by_text("pip install plotly").wait_for()
    panel.picture("plotly")
    assert panel.page.locator(".jp-OutputArea-output", has_text="Left out").count() == 0
    panel.close()
