"""What a person, a server or a cell does wrong has a sentence in the panel, and a way on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from faces.lab.browser.conftest import ASSISTANT, Lab, Panel, started
from playwright.sync_api import Route, expect
from program import call, replies

PASTE = """(field, text) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', text);
    const event = new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true});
    field.dispatchEvent(event);
}"""
DROP = """(field, text) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.setData('text/plain', text);
    field.dispatchEvent(new DragEvent('drop', {dataTransfer, bubbles: true, cancelable: true}));
}"""
WRITE = """(field, text) => {
    Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(field, text);
    field.dispatchEvent(new InputEvent('input', {bubbles: true}));
}"""
"""Writes as an extension of the browser's does. Playwright has each text laid out first, for minutes if it is long."""
MUCH = "line = 'x' * 99\nfor _ in range(100_000):\n    print(line)"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab of a person who has no key, whose server takes small files only."""
    home = tmp_path_factory.mktemp("bad")
    words = ("--NbagentApp.max_upload_mb=1", "--NbagentApp.approvals=never-ask")
    with started(home, *words, NBAGENT_ENGINE="bubblewrap") as lab:
        yield lab


def test_no_model_and_files_that_can_not_go_along(lab: Lab, panel: Panel, tmp_path: Path) -> None:
    """The sentence says what to do, and what was written stands in the field again."""
    file = {"name": "large.bin", "mimeType": "application/octet-stream", "buffer": b"x" * 1_100_000}
    panel.place.locator("input[type=file]").set_input_files(files=[file])  # type: ignore[list-item]
    alert = panel.place.get_by_role("alert")
    expect(alert).to_contain_text("Larger than the 1 MB that can be uploaded: large.bin")
    assert panel.place.locator(".nba-Chip").count() == 0
    # From the desktop: a folder can't go along, and a file is read when it is sent.
    folder, gone = tmp_path / "folder", tmp_path / "gone.txt"
    folder.mkdir()
    gone.write_text("gone soon")
    panel.drop(folder, gone)
    expect(alert).to_contain_text("folder is a folder.")
    panel.place.locator(".nba-Chip", has_text="gone.txt").wait_for()
    gone.unlink()
    panel.choose(model="replay:none.jsonl")
    replies(lab.root / "none.jsonl", "Never said.")
    panel.ask("Which?")
    expect(alert).to_contain_text("gone.txt can't be read any more.")
    panel.place.get_by_role("button", name="Leave out gone.txt").click()
    panel.place.get_by_role("button", name="New session").click()
    panel.choose(model="")
    panel.place.get_by_text("No model yet").wait_for()
    panel.question.press("Enter")
    expect(alert).to_contain_text("There is no model yet that could answer. Start JupyterLab with a key")
    assert panel.question.input_value() == "Which?"
    # Nothing was started for it, and the demo is still a click away.
    panel.place.get_by_role("button", name="Try the demo").wait_for()
    assert panel.page.evaluate(f"() => {ASSISTANT}.session") is None


def test_ten_megabytes_of_output(lab: Lab, panel: Panel) -> None:
    """They are cut on their way, with a sentence; the page stays small, and the answer comes."""
    replies(lab.root / "much.jsonl", call(MUCH), "Much.")
    panel.choose(model="replay:much.jsonl")
    panel.ask("Print")
    panel.place.get_by_text("Much.").wait_for()
    panel.place.get_by_label("Cell 1: done").wait_for()
    assert len(panel.place.inner_html()) < 2_000_000


def test_long_text_is_a_file_or_has_a_sentence(lab: Lab, panel: Panel) -> None:
    """What comes in long at once goes along as a file; what is typed so is not sent, and stands in the field."""
    length = call("print(len(open('/workspace/pasted.txt').read()))")
    replies(lab.root / "long.jsonl", length, "Read.")
    panel.choose(model="replay:long.jsonl", approvals="ask")
    panel.question.evaluate(PASTE, "row,1\n" * 100_000)
    panel.place.locator(".nba-Chip", has_text="pasted.txt").wait_for()
    panel.question.fill("Read this: ")
    panel.question.evaluate(WRITE, "Read this: " + "word " * 190_000)
    panel.place.locator(".nba-Chip", has_text="pasted-2.txt").wait_for()
    panel.question.evaluate(DROP, "row,1\n" * 100_000)
    panel.place.locator(".nba-Chip", has_text="pasted-3.txt").wait_for()
    assert panel.question.input_value() == "Read this: "
    for name in ("pasted-2.txt", "pasted-3.txt"):
        panel.place.get_by_role("button", name=f"Leave out {name}").click()
    long = "x" * 220_000
    for end in range(20_000, 240_000, 20_000):
        panel.question.evaluate(WRITE, long[:end])
    panel.question.press("Enter")
    alert = panel.place.get_by_role("alert")
    expect(alert).to_contain_text("The question has 220,000 characters. Attach long material as a file")
    assert panel.question.input_value() == long
    panel.ask("How long is it?")
    asked = panel.place.get_by_label("Approval")
    asked.get_by_role("button", name="Edit").click()
    asked.locator(".nba-Editor .cm-content").evaluate(
        "(editor, text) => editor.cmView.view.dispatch({changes: {from: 0, insert: text}})", "# a line\n" * 300_000
    )
    asked.get_by_role("button", name="Run this instead").click()
    expect(alert).to_contain_text("This is too long to be sent.")
    asked.get_by_role("button", name="Back").click()
    asked.get_by_role("button", name="Approve", exact=True).click()
    panel.place.get_by_text("600000", exact=True).wait_for()
    panel.place.get_by_text("Read.").wait_for()


def test_a_server_that_is_away_and_an_expired_login(lab: Lab, panel: Panel) -> None:
    """The person has the server looked for again; what a socket can't tell, a request does."""
    replies(lab.root / "login.jsonl", "First.")
    panel.choose(model="replay:login.jsonl")
    panel.ask("One?")
    panel.place.get_by_text("First.").wait_for()
    panel.page.route("**/nbagent/api/status*", lambda route: route.abort())
    panel.page.evaluate(f"() => {ASSISTANT}.machine.load()")
    expect(panel.place.get_by_role("alert")).to_contain_text("does not answer")
    panel.page.unroute("**/nbagent/api/status*")
    panel.place.get_by_role("button", name="Look again").click()
    expect(panel.place.get_by_role("alert")).to_have_count(0)
    # An authorizer of the server may change its mind.
    refused = json.dumps({"message": "You may not do this.", "mend": "Ask whoever runs it.", "kind": "ForbiddenError"})
    panel.page.route("**/nbagent/api/**", lambda route: route.fulfill(status=403, body=refused))
    panel.page.evaluate(f"() => {ASSISTANT}.machine.load()")
    expect(panel.place.get_by_role("alert")).to_contain_text("You may not do this. Ask whoever runs it.")
    panel.page.unroute("**/nbagent/api/**")
    panel.place.get_by_role("button", name="Look again").click()
    expect(panel.place.get_by_role("alert")).to_have_count(0)
    panel.page.route("**/nbagent/api/**", lambda route: route.fulfill(status=403, body="{}"))
    panel.cut()
    expect(panel.place.get_by_role("alert")).to_contain_text("login to this Jupyter server has expired")
    panel.question.fill("Not sent yet")
    panel.page.unroute("**/nbagent/api/**")
    with panel.page.expect_navigation():
        panel.place.get_by_role("button", name="Load again").click()
    panel.ready()
    expect(panel.question).to_have_value("Not sent yet")


@pytest.mark.parametrize(
    ("by", "said"),
    [(1, "This panel is older than its server part."), (-1, "The server part of nbagent is older than this panel.")],
    ids=["newer", "older"],
)
def test_a_server_part_of_another_age(panel: Panel, by: int, said: str) -> None:
    """Nothing is asked of a server that speaks another protocol."""

    def other(route: Route) -> None:
        told = route.fetch().json()
        route.fulfill(body=json.dumps({**told, "protocol": told["protocol"] + by}), content_type="application/json")

    panel.page.route("**/nbagent/api/status*", other)
    panel.page.reload()
    panel.ready()
    panel.place.get_by_text(said).wait_for()
    panel.question.fill("Which?")
    assert panel.place.get_by_role("button", name="Ask", exact=True).is_disabled()
    panel.question.press("Enter")
    assert panel.question.input_value() == "Which?"
    assert panel.place.get_by_label("You asked").count() == 0


def test_a_server_that_is_killed_in_the_middle_of_a_question(lab: Lab, panel: Panel) -> None:
    """The session runs on; the panel says so, keeps what is written, and is whole by itself once the server is back."""
    steps = "import time\nfor step in range(150):\n    print('step', step, flush=True)\n    time.sleep(0.1)"
    replies(lab.root / "steps.jsonl", call(steps), "First.", "Second.")
    panel.choose(model="replay:steps.jsonl")
    panel.ask("One?")
    panel.place.get_by_text("step 3").first.wait_for()
    # JupyterLab's own, if it has asked for something meanwhile, takes all keys.
    panel.page.add_locator_handler(
        panel.page.locator(".jp-Dialog").get_by_role("button", name="Close"), lambda button: button.click()
    )
    lab.kill()
    expect(panel.place.get_by_role("alert")).to_contain_text("The connection to the server was lost.")
    panel.question.fill("Two?")
    lab.start()
    panel.place.get_by_text("First.").wait_for()
    expect(panel.place.get_by_role("alert")).to_have_count(0)
    shown = panel.place.locator(".nba-Outputs").inner_text().split("\n")
    assert [each for each in shown if each] == [f"step {step}" for step in range(150)], "nothing lost, nothing twice"
    panel.place.get_by_role("button", name="Ask", exact=True).click()
    panel.place.get_by_text("Second.").wait_for()


def test_a_session_that_is_deleted_elsewhere(lab: Lab, panel: Panel) -> None:
    """While its question is answered: what is written stays, and is asked in a new one."""
    replies(lab.root / "gone.jsonl", call(MUCH.replace("print", "__import__('time').sleep(1) or print")), "Never said.")
    panel.choose(model="replay:gone.jsonl")
    panel.ask("One?")
    panel.place.get_by_label("Cell 1: running").wait_for()
    panel.page.evaluate(f"() => {ASSISTANT}.server.send('DELETE', 'sessions/' + {ASSISTANT}.session.id)")
    expect(panel.place.get_by_role("alert")).to_contain_text("deleted")
    panel.question.fill("Two?")
    replies(lab.root / "gone.jsonl", "Second.")
    panel.place.get_by_role("alert").get_by_role("button", name="New session").click()
    panel.send()
    panel.place.get_by_text("Second.").wait_for()
