"""The examples of the documents that nbagent comes from, each played through by a model over HTTP, in a real sandbox.

Examples of single parts are tests of these: the three tools' checklist in `agent/test_sandbox_tools.py`, states and
events in `state/test_manager.py`, the choice of tools in `mcp/test_select.py`, the pool in `kernel/test_pool.py`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from agent.stub import Provider, Say, python
from examples import FIBONACCI, READ_USERS, SAMPLE_USERS

from nbagent import Answer, Session
from nbagent.core.events import PhaseEntered, Reflected

pytestmark = pytest.mark.asyncio(loop_scope="module")

CSV = "name,volume,count\n" + "".join(f"p{i},{i % 3 * 50 + i},{i % 3 * 30 + i % 7}\n" for i in range(60))
CRITIQUE = "The code assumes 'users.json' exists. In a sandbox, no files exist by default. Create sample data inline."
SNAKE = """\
from collections import deque

class Snake:
    def __init__(self):
        self.body, self.food, self.alive = deque([(2, 2)]), (4, 2), True

    def step(self, dx, dy, size=5):
        x, y = self.body[0][0] + dx, self.body[0][1] + dy
        self.alive = 0 <= x < size and 0 <= y < size and (x, y) not in self.body
        self.body.appendleft((x, y))
        if (x, y) != self.food:
            self.body.pop()

game = Snake()
game.step(1, 0), game.step(1, 0)
assert game.alive and len(game.body) == 2
game.step(1, 0)
assert not game.alive
print('It eats, grows and dies at the wall.')
"""
LARGEST = "import polars as pl\nprint(pl.read_csv('/tmp/data/prescribers.csv')['volumes'].max())\n"
KMEANS = """\
import polars as pl
import matplotlib
matplotlib.use('Agg')
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans

# Load
df = pl.read_csv('/tmp/data/prescribers.csv')

# Cluster
X = df.select(['volume', 'count']).to_numpy()
kmeans = KMeans(n_clusters=3, random_state=42).fit(X)
df = df.with_columns(pl.Series('cluster', kmeans.labels_))

# Save
df.write_csv('/tmp/output/clustered.csv')

# Plot
plt.figure(figsize=(10,6))
plt.scatter(X[:,0], X[:,1], c=kmeans.labels_, cmap='viridis')
plt.xlabel('Volume')
plt.ylabel('Count')
plt.title('Prescriber Clusters')
plt.savefig('/tmp/output/plot.png', dpi=150, bbox_inches='tight')
plt.close()

print(f"Created {len(set(kmeans.labels_))} clusters")
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """The model's provider, for all examples."""
    stub = Provider()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", stub.url)
        patch.setenv("OPENAI_API_KEY", "none")
        yield stub
    stub.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    """One session, whose model also criticises what fails."""
    table = tmp_path_factory.mktemp("data") / "p.csv"
    table.write_text(CSV)
    assert provider.url
    async with Session(
        model="openai:gpt-4.1", critic="same", data={"prescribers": table}, engine="bubblewrap", mcp=False
    ) as started:
        yield started


def write(path: str, content: str) -> Say:
    """The model writes a script."""
    return Say(calls=(("sandbox_write_file", json.dumps({"file_path": path, "content": content})),))


def edit(path: str, old: str, new: str) -> Say:
    """The model changes one."""
    arguments = {"file_path": path, "old_string": old, "new_string": new}
    return Say(calls=(("sandbox_edit_file", json.dumps(arguments)),))


def execute(*command: str) -> Say:
    """The model runs a program."""
    return Say(calls=(("sandbox_exec", json.dumps({"command": command, "timeout": 120})),))


async def play(
    session: Session, provider: Provider, question: str, *script: Say
) -> tuple[Answer, list[str], list[Any]]:
    """Ask a question, and have the model answer by the script.

    Returns:
        The answer, the results of the calls as the model got them, and the events.
    """
    before = len(provider.requests)
    provider.say(*script)
    told: list[Any] = []
    stop = session.follow(lambda record: told.append(record.event))
    try:
        answer = await session.ask(question)
    finally:
        stop()
    assert provider.script == []
    asked = len(provider.requests) - before
    assert asked == len(script)
    sent = provider.sent()
    turn = next(at for at in range(len(sent) - 1, -1, -1) if question in str(sent[at]["content"]))
    return answer, [str(each["content"]) for each in sent[turn:] if each["role"] == "tool"], told


async def test_the_tenth_fibonacci_number(session: Session, provider: Provider) -> None:
    """Right at the first attempt, so nobody criticises anything."""
    answer, _, told = await play(
        session, provider, "Calculate the 10th Fibonacci number", Say(calls=(python(FIBONACCI),)), Say(text="It is 55.")
    )
    assert [cell.text for cell in answer.cells] == ["55"]
    assert (answer.success, answer.attempts, answer.unsupported) == (True, 1, [])
    assert not [event for event in told if isinstance(event, Reflected)]


async def test_users_json_and_its_self_correction(session: Session, provider: Provider) -> None:
    """The file isn't there; a critique says why that was to be expected; the second attempt brings its own data."""
    answer, results, told = await play(
        session,
        provider,
        "Read data from users.json and print usernames",
        Say(calls=(python(READ_USERS),)),
        Say(text=CRITIQUE),
        Say(calls=(python(SAMPLE_USERS),)),
        Say(text="There is no users.json; with sample data: alice, bob, charlie."),
    )
    assert [cell.status for cell in answer.cells] == ["error", "ok"]
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'users.json'" in results[0]
    assert answer.cells[1].text == "alice\nbob\ncharlie"
    assert (answer.success, answer.attempts) == (True, 2)
    (reflected,) = (event for event in told if isinstance(event, Reflected))
    assert (reflected.attempt, reflected.state, reflected.critique) == (1, "critique", CRITIQUE)
    assert CRITIQUE in str(provider.requests[-2]["messages"]), "the model read it before it tried again"


async def test_calculate_10_plus_20(session: Session, provider: Provider) -> None:
    """The session from end to end."""
    answer, _, _ = await play(
        session, provider, "Calculate 10 + 20", Say(calls=(python("10 + 20"),)), Say(text="10 + 20 is 30.")
    )
    assert "30" in answer.text
    assert session.is_running
    assert session.history[-1] is answer


@pytest.mark.parametrize(("code", "content"), [("print(2 + 2)", "4"), ('print("Hello")', "Hello")])
async def test_code_without_a_model(session: Session, code: str, content: str) -> None:
    """Its output in the small form: a type and a content."""
    output = (await session.run(code)).to_codebox()
    assert (output.type, output.content) == ("text", content)


async def test_top_3_python_web_frameworks(session: Session, provider: Provider) -> None:
    """What needs no code costs one call of the model, and passes through the phases that it needs."""
    answer, results, told = await play(
        session, provider, "Find the top 3 Python web frameworks", Say(text="Django, Flask and FastAPI.")
    )
    assert (answer.success, answer.cells, results) == (True, [], [])
    phases = [event.phase for event in told if isinstance(event, PhaseEntered)]
    assert phases == ["comprehension", "evaluation", "conversation"]


async def test_install_beautifulsoup4(session: Session, provider: Provider) -> None:
    """Kernels have it from the start, and what installs it says so."""
    code = "from bs4 import BeautifulSoup\nBeautifulSoup('<p>Soup of the <b>day</b></p>', 'html.parser').p.get_text()"
    answer, results, _ = await play(
        session,
        provider,
        "Install beautifulsoup4 for web scraping",
        Say(calls=(("install", json.dumps({"packages": ["beautifulsoup4"]})),)),
        Say(calls=(python(code),)),
        Say(text="It is installed, and reads HTML."),
    )
    assert "installed" in results[0]
    assert "'Soup of the day'" in results[1]
    assert answer.attempts == 1


async def test_install_the_requests_library(session: Session, provider: Provider) -> None:
    """By the tool for it, since nothing imports it yet; what comes later can."""
    answer, results, _ = await play(
        session,
        provider,
        "Install the requests library",
        Say(calls=(("install", json.dumps({"packages": ["requests"]})),)),
        Say(calls=(python("import requests\nrequests.Request('GET', 'http://x.org', params={'a': 1}).prepare().url"),)),
        Say(text="It is installed."),
    )
    assert "requests" in results[0]
    assert answer.cells[0].text == "'http://x.org/?a=1'"


async def test_create_a_snake_game(session: Session, provider: Provider) -> None:
    """Written as a file, and tried in the sandbox: nothing of it is on the host."""
    answer, results, _ = await play(
        session,
        provider,
        "Create a snake game in Python",
        write("/workspace/snake.py", SNAKE),
        execute("python", "/workspace/snake.py"),
        Say(text="The game is written and tried."),
    )
    assert json.loads(results[1])["stdout"] == "It eats, grows and dies at the wall.\n"
    assert answer.success
    assert not Path("/workspace/snake.py").exists()


async def test_k_means_with_a_plot(session: Session, provider: Provider) -> None:
    """Table and picture are collected, and both are the answer's files."""
    answer, results, _ = await play(
        session,
        provider,
        "Cluster the prescribers by volume and count, with a plot",
        write("/tmp/analysis.py", KMEANS),
        execute("python", "/tmp/analysis.py"),
        Say(text="Created 3 clusters: see clustered.csv and plot.png."),
    )
    found = json.loads(results[1])
    assert (found["exit_code"], found["stdout"], found["total_output_files"]) == (0, "Created 3 clusters\n", 2), found
    assert [path.name for path in answer.files] == ["clustered.csv", "plot.png"]
    assert answer.files[0].read_text().startswith("name,volume,count,cluster\n")
    assert answer.files[1].read_bytes().startswith(b"\x89PNG")
    assert answer.unsupported == []


async def test_recovery_from_an_execution_error(session: Session, provider: Provider) -> None:
    """Pattern 1: read stderr, edit, run again."""
    answer, results, _ = await play(
        session,
        provider,
        "What is the largest volume?",
        write("/tmp/script.py", LARGEST),
        execute("python", "/tmp/script.py"),
        Say(text="The column is called volume."),  # the critic
        edit("/tmp/script.py", "'volumes'", "'volume'"),
        execute("python", "/tmp/script.py"),
        Say(text="The largest volume is 159."),
    )
    failed, again = json.loads(results[1]), json.loads(results[3])
    assert (failed["exit_code"], again["exit_code"], again["stdout"]) == (1, 0, "159\n")
    assert "ColumnNotFoundError" in failed["stderr"]
    assert answer.unsupported == []


async def test_recovery_from_an_edit_that_is_not_unique(session: Session, provider: Provider) -> None:
    """Pattern 2: the file is read, and a longer text is found in it once."""
    _, results, _ = await play(
        session,
        provider,
        "Change the second limit",
        write("/tmp/script.py", "first = {'limit': 5}\nsecond = {'limit': 5}\nprint(first, second)\n"),
        edit("/tmp/script.py", "'limit': 5", "'limit': 9"),
        Say(text="Take in more of the line."),  # the critic
        execute("cat", "/tmp/script.py"),
        edit("/tmp/script.py", "second = {'limit': 5", "second = {'limit': 9"),
        execute("python", "/tmp/script.py"),
        Say(text="The second limit is 9 now."),
    )
    refused, read, edited, ran = map(json.loads, results[1:])
    assert refused["error"] == "old_string found 2 times - not unique. Include more context."
    assert read["stdout"].count("'limit': 5") == 2, "the file is as it was"
    assert edited["success"]
    assert ran["stdout"] == "{'limit': 5} {'limit': 9}\n"


async def test_recovery_from_a_missing_output(session: Session, provider: Provider) -> None:
    """Pattern 3: nothing was saved where it is collected from; an edit of the path brings it to the person."""
    await session.run("import shutil, os\nfor each in os.listdir('/tmp/output'): os.remove(f'/tmp/output/{each}')")
    script = "import polars as pl\npl.read_csv('/tmp/data/prescribers.csv').head(3).write_csv('/tmp/first.csv')\n"
    answer, results, _ = await play(
        session,
        provider,
        "Save the first rows as a table",
        write("/tmp/script.py", script),
        execute("python", "/tmp/script.py"),
        execute("ls", "-la", "/tmp/output"),
        edit("/tmp/script.py", "'/tmp/first.csv'", "'/tmp/output/first.csv'"),
        execute("python", "/tmp/script.py"),
        Say(text="They are in first.csv."),
    )
    missing, looked, _, ran = map(json.loads, results[1:])
    assert (missing["exit_code"], missing["output_files"]) == (0, [])
    assert missing["hint"] == "Code executed but no outputs in /tmp/output/. Verify script saves results."
    assert "first.csv" not in looked["stdout"]
    assert ran["output_files"] == ["first.csv"]
    assert [path.name for path in answer.files] == ["first.csv"]
