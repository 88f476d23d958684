"""The panel in a real JupyterLab and a real browser, with real sandboxes; the model's replies are recorded ones."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import machine
import pytest
from faces.lab.browser.conftest import ASSISTANT, Lab, Panel, started
from playwright.sync_api import Browser, WebSocket, expect
from program import call, replies, slowly

PLOT = (
    "import matplotlib.pyplot as plt\nimport polars as pl\ndf = pl.DataFrame({'a': [1, 3, 2]})\n"
    "plt.plot(df['a'])\nplt.show()\nprint('rows:', df.height)\ndf"
)
ON = "import time\nfor step in range(10_000):\n    print('step', step, flush=True)\n    time.sleep(0.1)"
FAILS = "import json\njson.loads('{')"
AWAITED = ON.replace("import time", "import asyncio").replace("time.sleep", "await asyncio.sleep")
SAVE = (
    "import os\nread = lambda name: open('/workspace/' + name).read()\n"
    "print(read('notes.txt'), read('of-the-server.txt'), read('image.png') + read('image-2.png'))\n"
    "print(os.listdir('/tmp/data'))\n"
    "noted_by_code = 1\nopen('/tmp/output/out.csv', 'w').write('a,b\\n1,2\\n')"
)

PASTE = """text => {
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([text], 'image.png', {type: 'image/png'}));
    const event = new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true});
    document.querySelector('.nba-Text').dispatchEvent(event);
}"""
"""Pastes a picture, to which a browser always gives this name."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab whose new sessions run in bubblewrap."""
    with started(tmp_path_factory.mktemp("panel"), NBAGENT_ENGINE="bubblewrap") as lab:
        yield lab


@pytest.fixture
def opened(lab: Lab, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Callable[..., Panel]]:
    """Opens a window whose new sessions have these recorded replies."""
    windows = []

    def open_window(*given: dict[str, Any] | str, approvals: str = "never-ask") -> Panel:
        name = re.sub(r"\W+", "-", request.node.name)[-60:]
        windows.append(lab.open(chromium, workspace=f"{name}-{len(windows)}"))
        replies(lab.root / f"{name}.jsonl", *given)
        windows[-1].choose(model=f"replay:{name}.jsonl", approvals=approvals)
        return windows[-1]

    yield open_window
    for number, each in enumerate(windows):
        each.picture(f"end-{request.node.name}-{number}")
        each.close()


def test_a_question_is_answered_and_the_next_one_stopped(opened: Callable[..., Panel]) -> None:
    """Cells show as cards with their outputs; the answer follows. Stop is there at once, and tells what it stopped.

    Of a traceback the own frames and the last line are seen. The end of what runs stays in sight, unless the person
    scrolls up. What was written of an answer stays.
    """
    said = slowly("word " * 300, seconds=60)
    panel = opened(call(PLOT, say="Let me look."), call(FAILS), "There are **3** rows.", call(ON), said)
    panel.ask("How many rows?")
    panel.stop.wait_for()
    panel.place.get_by_text("There are 3 rows.").wait_for()
    panel.place.get_by_text("Let me look.").wait_for()
    panel.place.get_by_label("Cell 1: done").wait_for()
    panel.place.get_by_text("rows: 3").wait_for()
    assert panel.place.locator(".nba-Outputs img[src^='data:image/png']").count() == 1
    outputs = panel.place.get_by_label("Outputs of cell 2")
    expect(outputs.get_by_text("Expecting property name")).to_be_in_viewport()
    expect(outputs).to_contain_text("in libraries")
    expect(outputs).not_to_contain_text("raw_decode")
    panel.picture("answered")
    panel.place.get_by_role("button", name="Show the whole traceback").click()
    expect(outputs).to_contain_text("raw_decode")
    panel.ask("Run on")
    panel.place.get_by_text("step 3").first.wait_for()
    is_at_end = "place => place.scrollTop > 100 && place.scrollHeight - place.scrollTop - place.clientHeight < 48"
    outputs = panel.place.get_by_label("Outputs of cell 3")
    outputs.get_by_text("step 60").wait_for()
    assert outputs.evaluate(is_at_end)
    panel.picture("running")
    outputs.hover()
    panel.page.mouse.wheel(0, -2_000)
    outputs.get_by_text("step 90").wait_for()
    assert outputs.evaluate("place => place.scrollTop") < 100, "its end is far below"
    told = "{ message: 'Of JupyterLab', type: 'info', options: { autoClose: false } }"
    panel.page.evaluate(f"() => void window.jupyterapp.commands.execute('apputils:notify', {told})")
    panel.page.locator(".jp-toastContainer").get_by_text("Of JupyterLab").wait_for()
    began = time.monotonic()
    panel.stop.click()  # no message of JupyterLab's lies over it
    panel.place.get_by_label("Cell 3: stopped").wait_for()
    assert time.monotonic() - began < 30, "a second where nothing else runs"
    panel.place.get_by_role("button", name="Ask", exact=True).wait_for()
    assert panel.place.get_by_role("alert").count() == 0
    assert panel.place.get_by_text("KeyboardInterrupt").count() == 0
    panel.ask("Tell me")
    panel.place.get_by_text("word word word").wait_for()
    panel.stop.click()
    expect(panel.place.get_by_label("Answer").last).to_contain_text(
        "This much was written, and is not checked: word word"
    )


def test_a_session_that_starts_is_stopped_from_the_first_moment(opened: Callable[..., Panel]) -> None:
    """Stop is there before there is a session; what was asked stands in the field again."""
    panel = opened("never said")
    panel.ask("What is it?")
    panel.stop.click()
    panel.place.get_by_role("button", name="Ask", exact=True).wait_for()
    assert panel.question.input_value() == "What is it?"
    assert panel.place.get_by_label("Answer").count() == 0


def test_approvals(opened: Callable[..., Panel]) -> None:
    """A cell runs as approved, or as edited; one that is rejected does not; `always` asks no more."""
    panel = opened(call("1 + 1"), call("2 + 2"), call("3 + 3"), call("4 + 4"), "Done.", approvals="ask")
    panel.ask("Count")
    asked = panel.place.get_by_label("Approval")
    asked.nth(0).get_by_role("button", name="Approve").click()
    panel.place.get_by_label("Cell 1: done").wait_for()
    asked.nth(1).get_by_role("button", name="Reject").click()
    asked.nth(1).get_by_label("Why not?").fill("too easy")
    asked.nth(1).get_by_label("Why not?").press("Enter")
    asked.nth(1).get_by_text("rejected").wait_for()
    asked.nth(2).get_by_role("button", name="Edit").click()
    expect(asked.nth(2).locator("[contenteditable=true]")).to_be_focused()
    panel.page.keyboard.press("Control+a")
    panel.page.keyboard.type("30 + 3")
    panel.picture("editing")
    asked.nth(2).get_by_role("button", name="Run this instead").click()
    panel.place.get_by_text("33", exact=True).wait_for()
    asked.nth(3).get_by_role("button", name="Always in this session").click()
    panel.place.get_by_text("Done.").wait_for()
    assert panel.place.get_by_text("2 + 2", exact=True).count() == 0


def test_hosts_are_asked_about_where_the_shield_says_so(opened: Callable[..., Panel]) -> None:
    """At a level without a network, too. What *Always* allows is in sight; a budget is for one session."""
    fetch = "import urllib.request\nurllib.request.urlopen('https://nbagent.invalid')"
    panel = opened(call(fetch), call("1 + 1"), "Done.", approvals="ask")
    shield = panel.place.get_by_title("How the code is isolated, and what you are asked about")
    shield.click()
    panel.place.get_by_label("Ask me about hosts that the code wants to reach").click()
    expect(panel.place.get_by_label("Ask me about hosts that the code wants to reach")).to_be_checked()
    panel.place.get_by_label("Budget").fill("2steps")
    panel.picture("shield")
    panel.place.get_by_label("Budget").press("Escape")
    panel.ask("Fetch")
    asked = panel.place.get_by_label("Approval")
    asked.get_by_text("Always allows without a question, for the rest of this session: every cell").wait_for()
    asked.get_by_role("button", name="Always in this session").click()
    asked.get_by_text("Allowed for the rest of this session: every cell").wait_for()
    panel.place.get_by_label("Host").get_by_role("button", name="Deny").click()
    panel.place.get_by_label("Host").get_by_text("denied").wait_for()
    panel.place.get_by_text("Go on beyond the budget?").wait_for()
    panel.place.get_by_role("button", name="Reject").click()
    expect(panel.place.get_by_label("Answer")).to_contain_text("for a larger budget, begin a new session")
    panel.picture("budget-rejected")
    panel.place.get_by_role("button", name="New session").click()
    shield.click()
    expect(panel.place.get_by_label("Ask me about hosts that the code wants to reach")).to_be_checked()
    expect(panel.place.get_by_label("Budget")).to_have_value("")
    panel.place.get_by_label("Trust").select_option("trusted")
    expect(panel.place.get_by_label("Ask me about hosts that the code wants to reach")).to_have_count(0)


def test_files_go_in_and_out(lab: Lab, opened: Callable[..., Panel]) -> None:
    """Files are attached, pasted, or dragged from JupyterLab's list, a folder as data; what a cell saves comes out."""
    panel = opened(call(SAVE), "Saved.")
    file = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"what I noted"}
    panel.place.locator("input[type=file]").set_input_files(files=[file])  # type: ignore[list-item]
    panel.place.get_by_text("notes.txt").wait_for()
    (lab.root / "of-the-server.txt").write_text("what the server has")
    panel.command("filebrowser:refresh")
    item = panel.page.locator(".jp-DirListing-item", has_text="of-the-server.txt")
    item.drag_to(panel.question, steps=10)
    chip = panel.place.locator(".nba-Chip", has_text="of-the-server.txt")
    chip.wait_for()
    # Or named, before there is a session.
    panel.place.get_by_role("button", name="Leave out of-the-server.txt").click()
    panel.question.press_sequentially("Read @of-the")
    panel.place.get_by_role("option", name="of-the-server.txt").wait_for()
    panel.question.press("Enter")
    chip.wait_for()
    assert panel.question.input_value() == "Read of-the-server.txt "
    (lab.root / "folder-of-the-server").mkdir()
    panel.command("filebrowser:refresh")
    panel.page.locator(".jp-DirListing-item", has_text="folder-of-the-server").drag_to(panel.question, steps=10)
    panel.place.locator(".nba-Chip", has_text="folder-of-the-server").get_by_text("data").wait_for()
    panel.page.evaluate(PASTE, "one")
    panel.page.evaluate(PASTE, "two")
    panel.place.locator(".nba-Chip", has_text="image-2.png").wait_for()
    panel.ask("Read it")
    panel.place.get_by_text("what I noted what the server has onetwo").wait_for()
    panel.place.get_by_text("['folder-of-the-server']").wait_for()
    panel.place.get_by_text("Saved.").wait_for()
    with panel.page.expect_download() as download:
        panel.place.get_by_label("Download out.csv").click()
    assert download.value.path().read_text() == "a,b\n1,2\n"
    panel.question.press_sequentially("See @out")
    panel.place.get_by_role("option").first.wait_for()
    panel.question.press("Enter")
    assert panel.question.input_value().startswith("See /tmp/output/out.csv")
    panel.question.press_sequentially("and @out")
    panel.place.get_by_role("option").first.wait_for()
    panel.question.press("Escape")
    panel.page.wait_for_timeout(3_000 * machine.pace())
    assert panel.place.get_by_role("option").count() == 0, "closed is closed"
    panel.question.fill("")
    panel.question.press_sequentially("@noted")
    panel.place.get_by_role("option", name="noted_by_code").wait_for()
    (lab.root / "folder-of-the-server" / "deep.csv").write_text("a\n1\n")
    panel.command("filebrowser:go-to-path", path="folder-of-the-server")
    panel.question.fill("")
    panel.question.press_sequentially("@deep")
    panel.place.get_by_role("option", name="deep.csv 4 B", exact=True).wait_for()
    panel.question.press_sequentially("er")
    panel.place.get_by_text("No file, variable or cell is called “deeper”.").wait_for()
    panel.question.press("Enter")
    panel.place.get_by_text("Enter again asks all the same.").wait_for()
    assert panel.question.input_value() == "@deeper"
    panel.question.press("Enter")
    expect(panel.question).to_have_value("")


def test_nothing_is_lost(lab: Lab, opened: Callable[..., Panel], chromium: Browser) -> None:
    """A window that is loaded again, and a second one, show the same; what one does, the other sees."""
    panel = opened(call(ON), "never said", "Second.")
    panel.ask("Run on")
    panel.place.get_by_text("step 3").first.wait_for()
    title = panel.session_id()
    panel.reload()
    panel.place.get_by_text("step 3").first.wait_for()
    panel.place.get_by_label("Cell 1: running").wait_for()
    other = lab.open(chromium, workspace="second")
    other.open_session("Run on")
    other.place.get_by_label("Cell 1: running").wait_for()
    assert other.session_id() == title
    # The connection is cut, and comes back by itself.
    panel.cut()
    panel.place.get_by_text("connection to the server was lost").wait_for()
    other.stop.click()
    other.place.get_by_label("Cell 1: stopped").wait_for()
    panel.mend()
    panel.place.get_by_label("Cell 1: stopped").wait_for()
    expect(panel.place.get_by_text("connection to the server was lost")).to_have_count(0)
    other.close()


@pytest.mark.parametrize("arrives", [True, False])
def test_a_question_that_is_on_its_way_when_the_connection_is_lost_is_asked_once(
    opened: Callable[..., Panel], *, arrives: bool
) -> None:
    """Whether it has arrived, the log tells, or the session, which has one question at a time; the field is empty."""
    panel = opened("First.", "Second.")
    lost = "original.call(socket, data); socket.close();" if arrives else "socket.close();"
    # Cut with the question itself, long before a record of it: its session imports much first.
    panel.page.evaluate(
        f"""() => {{
            const found = {ASSISTANT};
            const original = WebSocket.prototype.send;
            WebSocket.prototype.send = function (data) {{
                const socket = this;
                if (!String(data).includes('"name":"ask"')) return original.call(socket, data);
                WebSocket.prototype.send = original;
                found.server.socketAddress = () => 'ws://127.0.0.1:9/nowhere';
                {lost}
            }};
        }}"""
    )
    panel.ask("One?")
    panel.place.get_by_text("connection to the server was lost").wait_for()
    panel.mend()
    panel.place.get_by_text("First.").wait_for()
    expect(panel.place.get_by_role("alert")).to_have_count(0)
    expect(panel.place.get_by_label("You asked")).to_have_count(1)
    assert panel.question.input_value() == ""
    panel.ask("Two?")
    panel.place.get_by_text("Second.").wait_for()


def test_a_session_that_rests_is_asked_before_it_is_known_that_it_rests(opened: Callable[..., Panel]) -> None:
    """Whoever opens a session and asks at once is answered: it is resumed first."""
    panel = opened("First.", "Second.")
    panel.ask("One?")
    panel.place.get_by_text("First.").wait_for()
    panel.page.evaluate(f"() => {ASSISTANT}.call('stop').then(() => null)")
    panel.place.get_by_text("a question starts it again").wait_for()
    panel.page.evaluate(
        f"""() => {{
            const found = {ASSISTANT};
            const {{ id }} = found.session;
            found.open(null);
            found.open(id);
            void found.ask('Two?');
        }}"""
    )
    expect(panel.place.get_by_label("You asked")).to_have_count(2)
    expect(panel.place.get_by_role("article", name="Answer", exact=True)).to_have_count(2)
    expect(panel.place.get_by_role("alert")).to_have_count(0)


def test_the_end_is_followed_where_something_becomes_shorter_and_grows_again(opened: Callable[..., Panel]) -> None:
    """As an approval does that was given, before the cell comes: nobody has scrolled. Who has is left there."""
    panel = opened("First.")
    panel.ask("One?")
    panel.place.get_by_text("First.").wait_for()
    away = panel.place.get_by_role("button", name="To the end")
    frames = "await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))"
    panel.page.evaluate(
        f"""async () => {{
            const last = document.createElement('li');
            document.querySelector('.nba-Conversation > ol').append(last);
            last.style.height = '2000px';
            {frames};
            await new Promise(resolve => requestAnimationFrame(() => {{
                last.style.height = '800px';
                setTimeout(resolve);
            }}));
            last.style.height = '2000px';
            {frames};
        }}"""
    )
    expect(away).to_have_count(0)
    panel.scroll(-500)
    away.click()
    expect(away).to_have_count(0)


def test_what_can_not_be_listed_hides_nothing_else_behind_the_sign(opened: Callable[..., Panel]) -> None:
    """The session's files may not come; its cells and the files of the server do."""
    panel = opened(call("count = 1"), "One.")
    panel.ask("One?")
    panel.place.get_by_text("One.", exact=True).wait_for()
    panel.page.route("**/nbagent/api/sessions/*/files*", lambda route: route.abort())
    panel.question.press_sequentially("@cell")
    panel.place.get_by_role("option", name="cell 1").wait_for()


def test_a_connection_that_is_tried_twice_is_one(opened: Callable[..., Panel]) -> None:
    """A computer that wakes up tries for its network, and for its window; two sockets would say every word twice."""
    panel = opened("First.")
    sockets: list[WebSocket] = []
    panel.page.on("websocket", lambda each: sockets.append(each))
    panel.ask("One?")
    panel.place.get_by_text("First.").wait_for()
    panel.page.evaluate(
        f"""async () => {{
            const {{ channel }} = {ASSISTANT}.session;
            channel.socket.close();
            while (channel.connection !== 'lost') await new Promise(resolve => setTimeout(resolve));
            channel.retry();
            channel.retry();
        }}"""
    )
    panel.page.wait_for_function(f"() => {ASSISTANT}.session.channel.connection === 'open'")
    panel.page.wait_for_timeout(5_000 * machine.pace())
    assert len([each for each in sockets if "/nbagent/" in each.url and not each.is_closed()]) == 1


def test_a_session_that_was_left_is_quiet_and_keeps_its_model(
    lab: Lab, opened: Callable[..., Panel], chromium: Browser
) -> None:
    """It goes on; what is chosen for new sessions meanwhile is not shown as its model, but begins other workspaces."""
    panel = opened(call(AWAITED), "never said")
    panel.ask("Run on")
    panel.place.get_by_text("step 3").first.wait_for()
    panel.place.get_by_role("button", name="New session").click()
    panel.place.get_by_role("heading", name="Ask about your data").wait_for()
    panel.page.wait_for_timeout(2_000 * machine.pace())
    assert panel.place.get_by_role("alert").count() == 0
    panel.page.evaluate(f"() => {ASSISTANT}.setModel('openai:other')")
    chosen = panel.place.locator("[data-opens=model]")
    expect(chosen).to_have_attribute("title", "The model: openai:other")
    other = lab.open(chromium, workspace="another")
    expect(other.place.locator("[data-opens=model]")).to_have_attribute("title", "The model: openai:other")
    other.close()
    panel.open_session("Run on")
    panel.place.get_by_label("Cell 1: running").wait_for()
    expect(chosen).to_have_attribute("title", re.compile("replay"))
    panel.stop.click()
    panel.place.get_by_label("Cell 1: stopped").wait_for()
    assert panel.place.get_by_text("CancelledError").count() == 0


def test_a_wide_table_of_an_answer_scrolls_and_formulas_are_drawn(opened: Callable[..., Panel]) -> None:
    """Its words stay whole, in a panel that is as narrow as before; the keyboard reaches it by its name.

    Formulas are those that a model means: two prices are none, and macros that stay for the whole page do nothing.
    """
    formulas = f"so $x^2$ and \\( y \\), from $1 to $2\n\n$${'z + ' * 50}0$$"
    wide = "\n".join(["|" + "longest head|" * 12, "|" + "-|" * 12, "|" + "cell|" * 12])
    panel = opened(f"{wide}\n\n{formulas}", "$\\def\\alpha{x}\\alpha$", "it is $\\alpha$")
    panel.ask("What is it?")
    table = panel.place.get_by_role("region", name="Table")
    assert table.evaluate("it => it.scrollWidth > it.clientWidth && it.tabIndex === 0")
    assert table.evaluate("it => it.querySelector('th').clientHeight < it.querySelector('td').clientHeight * 3")
    conversation = panel.place.get_by_role("region", name="Conversation")
    assert conversation.evaluate("it => it.scrollWidth === it.clientWidth")
    drawn = panel.place.locator(".nba-Markdown mjx-container")
    expect(drawn).to_have_count(3)
    panel.place.get_by_text("from $1 to $2").wait_for()
    expect(panel.place.locator("mjx-container[tabindex='0']")).to_have_count(1)
    for question in ("And alpha?", "And now?"):
        panel.ask(question)
    answer = panel.place.get_by_role("article", name="Answer", exact=True).last
    expect(answer.locator("mjx-assistive-mml")).to_have_text("\N{GREEK SMALL LETTER ALPHA}")
    panel.place.get_by_text("$\\def\\alpha{x}\\alpha$").wait_for()


def test_sessions_are_found_renamed_and_deleted(opened: Callable[..., Panel]) -> None:
    """The list finds what was asked, gives another title, also if its field is left, and deletes after a question."""
    panel = opened("First.")
    panel.ask("Where are the albatrosses?")
    panel.place.get_by_text("First.").wait_for()
    panel.place.get_by_label("All sessions").click()
    panel.place.get_by_label("Search sessions").fill("albatross")
    row = panel.place.locator(".nba-Row", has_text="albatross")
    row.wait_for()
    panel.picture("sessions")
    row.hover()
    row.get_by_role("button", name="Rename").click()
    panel.place.get_by_label("New title").fill("Seabirds")
    panel.place.get_by_label("New title").press("Enter")
    expect(panel.place.get_by_label("Search sessions")).to_be_focused()
    panel.place.get_by_label("Search sessions").fill("")
    for given, key, title in (
        ("Gulls", "Escape", "Seabirds"),
        (" ", "Shift+Tab", "Seabirds"),
        ("Petrels", "Shift+Tab", "Petrels"),
    ):
        row = panel.place.locator(".nba-Row", has_text="Seabirds")
        row.hover()
        row.get_by_role("button", name="Rename").click()
        panel.place.get_by_label("New title").fill(given)
        panel.place.get_by_label("New title").press(key)
        panel.place.locator(".nba-Row", has_text=title).wait_for()
    row = panel.place.locator(".nba-Row", has_text="Petrels")
    row.hover()
    row.get_by_role("button", name="Delete").click()
    panel.place.get_by_role("button", name="Delete", exact=True).click()
    expect(panel.place.locator(".nba-Row", has_text="Petrels")).to_have_count(0)
