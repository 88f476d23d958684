"""Whoever uses a keyboard or a screen reader uses the panel too, in every theme; a person with no key sees a demo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import pytest
from faces.lab.browser.conftest import Lab, Panel, started
from playwright.sync_api import Browser, expect

AXE = Path(__file__).parents[4] / "panel" / "node_modules" / "axe-core" / "axe.min.js"
THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab of a person who has no key."""
    with started(tmp_path_factory.mktemp("access"), asks_for_news=True, NBAGENT_ENGINE="bubblewrap") as lab:
        yield lab


def serious(panel: Panel) -> list[str]:
    """What axe-core finds in the panel that is serious or worse."""
    if not panel.page.evaluate("() => 'axe' in window"):
        # JupyterLab has a loader of modules, of which axe would become one.
        source = AXE.read_text()
        panel.page.evaluate(f"() => {{ const define = undefined, module = undefined; {source} }}")
    found: dict[str, Any] = panel.page.evaluate("() => axe.run('.nba-Panel', {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def test_a_newcomer_sees_the_demo_by_keyboard_alone(panel: Panel) -> None:
    """The welcome says what is missing; the demo runs, an approval is given, all without a mouse; axe finds nothing."""
    panel.place.get_by_text("No model yet").wait_for()
    panel.place.get_by_text("A sandbox is ready: bubblewrap").wait_for()
    panel.picture("welcome")
    assert serious(panel) == []
    _open(panel, "safety")
    assert serious(panel) == []
    panel.picture("safety")
    panel.page.keyboard.press("Escape")
    _open(panel, "model")
    panel.place.get_by_text("set OPENAI_API_KEY").wait_for()
    assert serious(panel) == []
    panel.page.keyboard.press("Escape")
    panel.place.get_by_role("button", name="Try the demo").press("Enter")
    # The keyboard is lost with no button that goes.
    expect(panel.question).to_be_focused()
    panel.place.get_by_role("button", name="Approve", exact=True).wait_for()
    assert serious(panel) == []
    # What JupyterLab asks on its first start lies over nothing of the panel.
    news = panel.page.locator(".Toastify__toast", has_text="Jupyter news").bounding_box()
    place = panel.place.bounding_box()
    assert news is not None
    assert place is not None
    assert 0 <= news["x"] < news["x"] + news["width"] <= place["x"]
    panel.picture("approval")
    panel.place.get_by_role("button", name="Always in this session").press("Enter")
    expect(panel.place.locator("[aria-label=Approval]:focus")).to_have_count(1)
    # The demo also installs a package, which is another rule.
    panel.place.get_by_label("Packages").wait_for()
    panel.picture("install")
    panel.place.get_by_role("button", name="Always in this session").press("Enter")
    panel.place.get_by_role("article", name="Answer").wait_for()
    for theme in THEMES:
        panel.command("apputils:change-theme", theme=theme)
        panel.page.wait_for_timeout(5_000 * machine.pace())
        panel.picture(theme.replace(" ", "-"))
        assert serious(panel) == []
    panel.place.get_by_label("All sessions").press("Enter")
    panel.place.locator(".nba-Row").first.wait_for()
    assert serious(panel) == []
    panel.page.keyboard.press("Escape")
    panel.question.wait_for()


def test_the_keyboard_stays_in_the_question_of_a_page_that_was_just_opened(lab: Lab, chromium: Browser) -> None:
    """JupyterLab opens its launcher later than it says that it is ready, which takes the keyboard; it is given back."""
    panel = lab.open(chromium, workspace="fresh")
    panel.page.locator(".jp-LauncherCard").first.wait_for()
    # Its spinner ends when it has taken the keyboard.
    panel.page.wait_for_function("() => !document.querySelector('#jp-main-dock-panel .jp-Spinner')")
    expect(panel.question).to_be_focused()
    # Not a frame later: a key that comes meanwhile would go astray. A question that was sent changes nothing.
    panel.page.keyboard.type("Which")
    panel.page.keyboard.press("Shift+Enter")
    card = panel.page.locator(".jp-LauncherCard").first
    assert card.evaluate("card => { card.focus(); return document.activeElement.matches('.nba-Text') }")
    # What the person does goes before what was wanted.
    card.focus()
    panel.page.keyboard.press("Tab")
    panel.page.locator(".jp-LauncherCard").last.focus()
    panel.page.evaluate("() => new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    expect(panel.question).not_to_be_focused()
    panel.close()


def test_who_wants_no_motion_sees_none(panel: Panel) -> None:
    """The sign that something runs does not turn."""
    panel.page.emulate_media(reduced_motion="reduce")
    panel.place.get_by_role("button", name="Try the demo").click()
    spinner = panel.place.locator(".nba-Spinner").first
    spinner.wait_for()
    assert spinner.evaluate("each => getComputedStyle(each).animationName") == "none"
    panel.stop.click()
    expect(panel.stop).to_have_count(0)


def _open(panel: Panel, what: str) -> None:
    panel.place.locator(f"[data-opens={what}]").press("Enter")
    panel.place.get_by_role("dialog").wait_for()
