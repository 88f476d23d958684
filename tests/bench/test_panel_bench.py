"""How fast the panel is drawn, in a real JupyterLab and a real Chromium; and how large it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine
import pytest
from faces.lab.browser.conftest import ASSISTANT, Lab, Panel, started
from playwright.sync_api import Browser, sync_playwright
from program import call, replies

from nbagent.core.events import Answered, Asked, CellFinished, CellStarted, Usage
from nbagent.core.session_log import SessionLog

Say = Callable[..., None]
BUILT = Path(__file__).parents[2] / "panel" / "build"
CELLS = 500
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CODE = "import polars as pl\n\nframe = pl.read_csv('/tmp/data/table.csv')\nframe.group_by('species').agg(pl.len())"
PAINT = """async () => {
  const began = performance.now();
  await window.jupyterapp.commands.execute('nbagent:focus');
  while (!document.querySelector('.nba-Composer')?.offsetHeight) await new Promise(requestAnimationFrame);
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""
"""Milliseconds from the command that shows the panel to what it shows."""
FRAMES = """
  const longest = { last: performance.now(), most: 0, frames: 0, began: performance.now(), goes: true };
  const frame = now => {
    longest.most = Math.max(longest.most, now - longest.last);
    longest.last = now;
    longest.frames++;
    if (longest.goes) requestAnimationFrame(frame);
  };
  await new Promise(requestAnimationFrame);
  longest.last = longest.began = performance.now();
  requestAnimationFrame(frame);
"""
WORDS = f"""async () => {{
  const session = {ASSISTANT}.session;
  const turn = session.conversation.asking;
  {FRAMES}
  for (let word = 0; word < 5000; word++) {{
    const text = word % 60 === 59 ? '\\n\\n' : word % 7 ? 'word ' : '**bold** ';
    session.channel._words.emit({{ turn, text }});
    if (word % 10 === 9) await new Promise(done => setTimeout(done, 4));
  }}
  longest.goes = false;
  return longest.most;
}}"""
"""5,000 words of an answer, as the channel hands them out; the longest frame in milliseconds."""
SCROLL = f"""async () => {{
  const place = document.querySelector('.nba-Conversation');
  {FRAMES}
  const end = performance.now() + 5000;
  while (performance.now() < end) {{
    place.scrollTop -= 40;
    await new Promise(requestAnimationFrame);
  }}
  longest.goes = false;
  return 1000 * longest.frames / (longest.last - longest.began);
}}"""
"""Five seconds of scrolling up; frames a second."""
STOP = """async () => {
  const stop = [...document.querySelectorAll('.nba-Stop')][0];
  const began = performance.now();
  stop.click();
  // A run that ends within a frame takes the button away before it says so.
  while (stop.isConnected && !stop.textContent.includes('Stopping')) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
"""Milliseconds from the click to the word that it was heard, or to the end of the run."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    with sync_playwright() as playwright:
        made = machine.chromium(playwright)
        yield made
        made.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab with a long session, and one that is in the middle of a question."""
    home = tmp_path_factory.mktemp("panel")
    (home / "state").mkdir()
    with contextlib.closing(SessionLog(home / "state", "long")) as log:
        log.emit(Asked(turn=1, question="Many?", model="m"))
        for number in range(1, CELLS + 1):
            outputs = [
                {"output_type": "stream", "name": "stdout", "text": "".join(f"line {line}\n" for line in range(8))},
                {"output_type": "display_data", "metadata": {}, "data": {"image/png": PIXEL, "text/plain": "figure"}},
            ]
            log.emit(CellStarted(cell=number, turn=1, code=CODE))
            log.emit(CellFinished(cell=number, turn=1, status="ok", outputs=outputs, execution_count=number))
        log.emit(Answered(turn=1, text="Many.", success=True, attempts=1, usage=Usage(1, 1, 1)))
    with contextlib.closing(SessionLog(home / "state", "asking")) as log:
        log.emit(Asked(turn=1, question="How?", model="m"))
    with started(home, "--NbagentApp.approvals=never-ask", NBAGENT_ENGINE="bubblewrap") as lab:
        yield lab


@pytest.fixture
def panel(lab: Lab, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Panel]:
    """A window of its own."""
    panel = lab.open(browser, workspace=request.node.name)
    yield panel
    panel.close()


def measured(benchmark: Any, panel: Panel, script: str) -> float:
    """What a script in the page measures, once."""
    return float(benchmark.pedantic(panel.page.evaluate, args=(script,), rounds=1))


def test_its_size(benchmark: Any, say: Say) -> None:
    """All that a browser loads of it, and what tells JupyterLab of it."""
    size = benchmark.pedantic(lambda: sum(each.stat().st_size for each in BUILT.rglob("*") if each.is_file()), rounds=1)
    say("the JupyterLab extension", size / 1000, limit=300, unit="KB")


def test_the_first_paint(benchmark: Any, say: Say, panel: Panel) -> None:
    """From the command that shows it to what it shows; it was shown before, and another panel is in its place."""
    panel.page.evaluate("() => window.jupyterapp.shell.collapseRight()")
    panel.page.reload()
    panel.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    panel.page.wait_for_timeout(2000)
    say("the panel's first paint", measured(benchmark, panel, PAINT), limit=150, unit="ms")


def test_a_long_answer(benchmark: Any, say: Say, panel: Panel) -> None:
    """No frame waits long for 5,000 words that come one after the other."""
    panel.open("asking")
    panel.place.get_by_label("You asked").wait_for()
    say("the longest frame of 5,000 words", measured(benchmark, panel, WORDS), limit=100, unit="ms")


def test_a_long_conversation(benchmark: Any, say: Say, panel: Panel) -> None:
    """500 cells with text and pictures scroll smoothly; a frame takes 20 ms at most, 50 of them a second."""
    panel.open("long")
    panel.place.get_by_text("Many.").wait_for()
    panel.page.wait_for_timeout(2000)
    frames = measured(benchmark, panel, SCROLL)
    say("a frame while 500 cells scroll", 1000 / frames, limit=20, unit="ms")


def test_stop_is_heard(benchmark: Any, say: Say, lab: Lab, panel: Panel) -> None:
    """A click on Stop is answered at once, while a cell prints."""
    on = "import time\nfor step in range(10_000):\n    print('step', step, flush=True)\n    time.sleep(0.01)"
    replies(lab.root / "on.jsonl", call(on), "never said")
    panel.choose(model="replay:on.jsonl")
    panel.ask("Run on")
    panel.place.get_by_text("step 3").first.wait_for()
    say("Stop, from the click to the word", measured(benchmark, panel, STOP), limit=200, unit="ms")
    panel.place.get_by_label("Cell 1: stopped").wait_for()
