"""A whole question by keyboard alone: asked with files, approved, stopped, undone, put into the notebook, exported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import machine
import pytest
from faces.lab.browser.conftest import Lab, Panel, started
from faces.lab.browser.notebooks import CELLS, IDLE, beside
from playwright.sync_api import expect
from program import call, replies

READ = "print(open('/workspace/notes.txt').read(), open('/workspace/of-the-server.txt').read())"
ON = "import time\nfor step in range(10_000):\n    print('step', step, flush=True)\n    time.sleep(0.1)"
WATCH = """() => {
    window.told = [];
    window.lost = [];
    const live = '[role=status], [role=alert], [aria-live]';
    const tell = node => {
        const place = (node.nodeType === 1 ? node : node.parentElement)?.closest(live);
        const parts = [...(place?.childNodes ?? [])].filter(each => !each.ariaHidden);
        const text = parts.map(each => each.textContent).join('');
        if (text && place.closest('.nba-Panel') && window.told.at(-1) !== text) window.told.push(text);
    };
    new MutationObserver(seen => seen.forEach(({ target, addedNodes }) => [target, ...addedNodes].forEach(tell)))
        .observe(document.body, { childList: true, subtree: true, characterData: true });
    let frames = 0;
    let last = '';
    const look = () => {
        const { activeElement } = document;
        frames = activeElement === document.body ? frames + 1 : 0;
        if (frames === 3) window.lost.push(last);
        if (!frames) last = activeElement.outerHTML.slice(0, 200);
        requestAnimationFrame(look);
    };
    look();
}"""
"""Notes what a screen reader would say of the panel, and whatever had the keyboard when nothing had it any more."""
FOCUSED = """() => {
    const { activeElement: it } = document;
    const style = getComputedStyle(it);
    const around = getComputedStyle(it.closest('.nba-Composer') ?? it);
    const labels = [...(it.labels ?? [])].map(each => each.textContent);
    return {
        name: it.ariaLabel || labels.join() || it.textContent.trim(),
        seen: [style.outlineStyle, style.boxShadow, around.boxShadow].some(each => each !== 'none'),
        html: it.outerHTML.slice(0, 200)
    };
}"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab that asks before each cell."""
    with started(tmp_path_factory.mktemp("keyboard"), NBAGENT_ENGINE="bubblewrap") as lab:
        yield lab


def reach(panel: Panel, name: str, key: str = "Tab") -> None:
    """Go on until what has this name has the keyboard; all on the way has a name, and is seen to have it."""
    passed = []
    for _ in range(60):
        panel.page.keyboard.press(key)
        focused = panel.page.evaluate(FOCUSED)
        assert focused["name"], focused["html"]
        assert focused["seen"], focused["html"]
        passed.append(focused["name"])
        if focused["name"] == name:
            return
    raise AssertionError(f"{name} is not among {passed}")


def test_a_whole_question(lab: Lab, panel: Panel, tmp_path: Path) -> None:
    """Nothing needs a mouse, the keyboard is never lost, and a screen reader hears what waits and how it ended."""
    press, write = panel.page.keyboard.press, panel.page.keyboard.type
    place = panel.place
    replies(
        lab.root / "keys.jsonl",
        *(call(READ), call("2 + 2"), call("3 + 3"), call("print('four')"), call("print('five')"), "Done.", call(ON)),
        "never said",
    )
    (lab.root / "of-the-server.txt").write_text("what the server has")
    (tmp_path / "notes.txt").write_text("what I noted")
    beside(lab, panel, "asked.ipynb", "first = 1")
    panel.page.wait_for_function(IDLE)
    panel.page.evaluate("window.jupyterapp.shell.currentWidget.activate()")
    panel.page.wait_for_function("() => document.activeElement.closest('.jp-Notebook')")
    panel.page.evaluate(WATCH)
    panel.page.on("filechooser", lambda _: None)  # from when on Chromium gives them to this test

    press("Control+Alt+j")
    expect(panel.question).to_be_focused()
    reach(panel, "Attach files")
    with panel.page.expect_file_chooser() as chooser:
        press("Enter")
    chooser.value.set_files(tmp_path / "notes.txt")
    expect(panel.question).to_be_focused()
    write("Read them, @of-the")
    place.get_by_role("option", name="of-the-server.txt").wait_for()
    press("ArrowDown")
    press("Enter")
    expect(panel.question).to_have_value("Read them, of-the-server.txt ")
    place.locator(".nba-Chip", has_text="of-the-server.txt").wait_for()
    reach(panel, "Model")
    press("Enter")
    write("replay:keys.jsonl")
    place.get_by_role("option", name="replay:keys.jsonl").wait_for()
    press("Enter")
    expect(place.locator("[data-opens=model]")).to_be_focused()
    reach(panel, "isolated")
    press("Enter")
    expect(place.get_by_label("Trust")).to_be_focused()
    press("Escape")
    expect(place.locator("[data-opens=safety]")).to_be_focused()
    reach(panel, "Your question", "Shift+Tab")
    press("Enter")

    asked = place.get_by_label("Approval")
    asked.nth(0).get_by_role("button", name="Approve").wait_for()
    reach(panel, "Approve", "Shift+Tab")
    press("Enter")
    place.get_by_text("what I noted what the server has").wait_for()
    asked.nth(1).get_by_role("button", name="Reject").wait_for()
    reach(panel, "Reject")
    press("Enter")
    expect(place.get_by_label("Why not?")).to_be_focused()
    write("too easy")
    press("Enter")
    asked.nth(2).get_by_role("button", name="Edit").wait_for()
    reach(panel, "Edit")
    press("Enter")
    expect(asked.nth(2).locator("[contenteditable=true]")).to_be_focused()
    press("Escape")  # Tab indents there: this leads out of it
    reach(panel, "Edit")
    press("Enter")
    expect(asked.nth(2).locator("[contenteditable=true]")).to_be_focused()
    press("Control+a")
    write("30 + 3")
    press("Control+Enter")
    place.get_by_text("33", exact=True).wait_for()
    asked.nth(3).get_by_role("button", name="Always in this session").wait_for()
    reach(panel, "Always in this session")
    press("Enter")
    place.get_by_text("Done.").wait_for()

    press("Control+Alt+j")
    expect(panel.question).not_to_be_focused()  # it led back, and leads here again
    press("Control+Alt+j")
    expect(panel.question).to_be_focused()
    reach(panel, "Insert 4 cells into asked.ipynb", "Shift+Tab")
    press("Enter")
    place.get_by_text("Its cells are in asked.ipynb").wait_for()
    reach(panel, "Undo this question")
    press("Enter")
    place.get_by_text("Undone: the kernel is as if it had not been asked.").wait_for()
    panel.page.wait_for_function(f"() => {CELLS}.length === 1")
    expect(place.get_by_role("button", name="Bring it back")).to_be_enabled()  # once the other cells have run again
    reach(panel, "Bring it back")
    press("Enter")
    panel.page.wait_for_function(f"() => {CELLS}.length === 5")

    reach(panel, "Your question")
    write("Run on")
    press("Enter")
    place.get_by_text("step 3").first.wait_for()
    expect(panel.question).to_be_focused()
    reach(panel, "Stop")
    press("Enter")
    place.get_by_label("Cell 5: stopped").wait_for()
    place.get_by_role("button", name="Ask", exact=True).wait_for()
    expect(panel.question).to_be_focused()
    assert panel.page.evaluate("() => window.lost") == []
    told = " | ".join(panel.page.evaluate("() => window.told"))
    for words in (
        "Approval needed: ",
        "Waits for your approval",
        "Cell 5 runs",
        "Answered.",
        "Stopping",
        "The question has ended: Stopped.",
    ):
        assert words in told

    press("Control+Shift+c")
    panel.page.locator("#modal-command-palette .lm-CommandPalette-input").wait_for()
    write("Export Reproducible")
    panel.page.locator(".lm-CommandPalette-item.lm-mod-active", has_text="Export Reproducible").wait_for()
    press("Enter")
    expect(panel.page.get_by_role("dialog").get_by_role("textbox")).to_be_focused()
    press("Control+a")
    write("by-keyboard.ipynb")
    press("Enter")
    panel.page.wait_for_function("() => window.jupyterapp.shell.currentWidget?.context?.path === 'by-keyboard.ipynb'")
    assert (lab.root / "by-keyboard.ipynb").stat().st_size > 0
    press("Control+Alt+j")
    expect(panel.question).to_be_focused()
    press("Control+Alt+j")
    panel.page.wait_for_function("() => document.activeElement.closest('.jp-Notebook')")
    panel.page.wait_for_timeout(1_000 * machine.pace())
    expect(panel.question).not_to_be_focused()
