"""A session can run in the kernel of the notebook in front, and a person sees what isolates that before they ask."""

from __future__ import annotations

import fcntl
from pathlib import Path

from faces.lab.browser.conftest import started
from faces.lab.browser.notebooks import IDLE, beside
from playwright.sync_api import Browser, expect
from program import call, replies

from nbagent.sandbox import environment


def test_a_session_runs_in_the_notebooks_own_kernel(tmp_path: Path, chromium: Browser) -> None:
    """It has the person's variables, and it is said that nothing isolates it. A first sandbox tells its progress."""
    name = replies(tmp_path / "replies.jsonl", call("print('there is', mine)"), "It is there.")
    words = ("--NbagentApp.approvals=never-ask",)
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    with started(tmp_path / "home", *words, NBAGENT_MODEL=name, NBAGENT_ENGINE="bubblewrap", **cache) as lab:
        panel = lab.open(chromium, workspace="kernel")
        panel.page.evaluate("() => window.jupyterapp.commands.execute('launcher:create').then(() => null)")
        cards = panel.page.locator(".jp-LauncherCard")
        expect(cards.filter(has_text="Python (sandboxed, bubblewrap)")).to_have_count(2)  # a notebook, a console
        expect(cards.filter(has_text="Docker")).to_have_count(0)  # no daemon answers
        named = [each.strip() for each in cards.all_inner_texts()]
        assert named.index("Terminal") < named.index("nbagent"), "the first card gives its section the icon"
        beside(lab, panel, "own.ipynb", "mine = 'a variable of mine'\nprint(mine)")
        panel.page.wait_for_function(IDLE)
        panel.command("notebook:run-cell")
        panel.page.locator(".jp-OutputArea-output").get_by_text("a variable of mine").wait_for()
        choice = panel.place.get_by_label("The code runs in")
        assert choice.input_value() == "own"
        choice.select_option("the kernel of own.ipynb")
        panel.place.get_by_text("Not isolated: this kernel runs as you").wait_for()
        panel.picture("kernel-choice")
        context = "window.jupyterapp.shell.currentWidget.sessionContext"
        panel.page.evaluate(context + ".shutdown().then(() => null)")
        panel.place.get_by_text("No notebook with a kernel is in front.").wait_for()
        panel.ask("Is it there?")
        expect(panel.place.get_by_role("alert")).to_contain_text("The kernel in which the code was to run is gone.")
        assert panel.question.input_value() == "Is it there?", "nothing was asked elsewhere"
        panel.place.get_by_label("Dismiss").click()
        panel.page.evaluate(context + ".changeKernel({name: 'python3'}).then(() => null)")
        panel.page.wait_for_function(IDLE)
        panel.command("notebook:run-cell")
        panel.page.locator(".jp-OutputArea-output").get_by_text("a variable of mine").wait_for()
        panel.ask("Is it there?")
        panel.place.get_by_text("It is there.").wait_for()
        panel.place.get_by_text("there is a variable of mine").wait_for()
        panel.place.locator(".nba-Facts").get_by_text("not isolated: this kernel runs as you").wait_for()
        panel.picture("kernel-shared")
        made = Path(environment.describe().folder)
        making = tmp_path / "cache" / "nbagent" / "environments"
        making.mkdir(parents=True)
        with (making / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (making / "progress").write_text("12 of 200 MB")
            panel.page.evaluate(f"() => void {context}.changeKernel({{name: 'nbagent-bubblewrap'}})")
            told = panel.page.locator(".Toastify__toast")
            expect(told).to_have_text("nbagent: 12 of 200 MB")
            # The panel says it too, for a sandbox of its own.
            panel.place.get_by_role("button", name="New session").click()
            choice.select_option("a sandbox of its own")
            panel.ask("Is it there?")
            panel.place.get_by_text("12 of 200 MB").wait_for()
            panel.picture("first-start")
            panel.question.press("Escape")
            expect(panel.question).to_have_value("Is it there?")
            (making / "progress").write_text("40 of 200 MB")
            expect(told).to_have_text("nbagent: 40 of 200 MB")
            # One that a person has closed does not come again.
            told.get_by_role("button", name="Hide notification").click()
            expect(told).to_have_count(0)
            (making / "progress").write_text("150 of 200 MB")
            panel.page.wait_for_timeout(4000)  # two looks
            expect(told).to_have_count(0)
            (making / made.name).symlink_to(made)
        panel.page.wait_for_function(IDLE)
        expect(told).to_have_count(0)
        while len(list((tmp_path / "home" / "state" / "sessions").iterdir())) > 1:
            panel.page.wait_for_timeout(200)  # the session that was stopped while it started goes again
        panel.close()
