"""The forge's tools in the agent: offered, called as cells, asked about, and refused where they were changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent.stub import Kernel, Provider, Say, answer
from forge.shared import CODE, TESTS, made

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.middleware.approve import ApprovalMiddleware
from nbagent.agent.middleware.forge_tools import OFFERED, ForgeTools
from nbagent.agent.providers.models import open_model
from nbagent.core.errors import InstallRefused
from nbagent.core.events import ApprovalAsked, Event, Package, ToolRefused
from nbagent.forge import Draft, Tool, ToolForge
from nbagent.forge.library import Library
from nbagent.safety.approvals import Consent, Mode


class World:
    """An agent with a library."""

    def __init__(self, provider: Provider, kernel: Kernel, root: Path) -> None:
        self.provider = provider
        self.kernel = kernel
        self.library = Library(root)
        self.events: list[Event] = []
        self.consent = Consent(Mode.NEVER_ASK, self.hear)
        self.decisions: list[dict[str, Any]] = []
        self.turn = 0
        forge = ToolForge(root, engine="bubblewrap", notify=self.events.append)
        self.tools = ForgeTools(forge, kernel, consent=self.consent)
        approvals = ApprovalMiddleware(self.consent)
        self.agent: Agent = build_agent(
            open_model("openai:m"), kernel, system_prompt="s", middleware=[self.tools], approvals=approvals
        )

    def hear(self, event: Event) -> None:
        """Answer what a person is asked."""
        self.events.append(event)
        if isinstance(event, ApprovalAsked) and self.decisions:
            assert self.consent.answer(event.id, **self.decisions.pop(0))

    async def ask(self, *script: Say) -> str:
        """Ask a question that the model answers like this."""
        self.turn += 1
        self.provider.say(*script)
        found = await answer(self.agent, "q", turn=self.turn, told=self.events)
        assert self.provider.script == []
        return found.text

    def offered(self, number: int = -1) -> list[str]:
        """The tools in a request that are not the kernel's."""
        names = [tool["function"]["name"] for tool in self.provider.requests[number]["tools"]]
        assert names[0] == "python"
        assert names[5:7] == ["create_tool", "wrap_package"]
        return names[7:]

    def told(self) -> list[str]:
        """The results of the last question's calls."""
        return [message["content"] for message in self.provider.sent() if message["role"] == "tool"]

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [each for each in self.events if isinstance(each, kind)]


@pytest.fixture
def world(provider: Provider, kernel: Kernel, tmp_path: Path) -> Iterator[World]:
    """A world whose tools are gone from this process afterwards, which is the kernel's too."""
    yield World(provider, kernel, tmp_path)
    for name in ("tool_word_count", "tool_other_tool"):
        sys.modules.pop(name, None)


def call(tool: str, /, **arguments: Any) -> Say:
    """A reply that calls a tool."""
    return Say(calls=((tool, json.dumps(arguments)),))


def python(code: str) -> Say:
    """A reply that runs a cell."""
    return call("python", code=code)


DONE = Say(text="ok")


async def test_a_tool_of_the_library_is_a_tool_of_the_model(world: World) -> None:
    """Offered with its schema, defined by one cell before its first call, called by a cell each; it counts as used."""
    world.library.add(made())
    before = world.library.listed()[0].used
    await world.ask(call("word_count", text="a bb"), call("word_count", text="a bb", least=2), DONE)
    assert world.offered(0) == ["word_count"]
    offered = world.provider.requests[0]["tools"][7]["function"]
    assert offered["description"] == "Counts the words of a text.\nCount the words of a text."
    assert offered["parameters"]["properties"] == made().schema["properties"]
    define, *calls = world.kernel.codes
    assert define.startswith("# The tool word_count, version 1,")
    assert calls == ["word_count(text='a bb')", "word_count(text='a bb', least=2)"]
    assert world.told() == ["[result]\n2", "[result]\n1"]
    assert world.library.listed()[0].used > before


async def test_cells_can_call_it_too(world: World) -> None:
    """Once it is defined."""
    world.library.add(made())
    await world.ask(call("word_count", text="a"), python("word_count('a b c')"), DONE)
    assert world.told()[-1] == "[result]\n3"


async def test_it_is_defined_again_where_it_is_gone(world: World) -> None:
    """After a cell took its name, or another kernel came, the call is made again."""
    world.library.add(made())
    await world.ask(call("word_count", text="a"), python("word_count = 3"), call("word_count", text="a"), DONE)
    assert world.told()[-1] == "[result]\n1"
    world.kernel.names.clear()
    await world.ask(call("word_count", text="a"), DONE)
    assert world.told()[-1] == "[result]\n1"


async def test_it_is_defined_again_after_a_cell_made_another_function_of_its_name(world: World) -> None:
    """A call of the tool is a call of what was tested; cells that only use it change nothing."""
    world.library.add(made())
    await world.ask(call("word_count", text="a"), python("word_count('a b')"), call("word_count", text="a"), DONE)
    assert len(world.kernel.codes) == 4
    mine = "def word_count(text):\n    return 'mine'"
    await world.ask(python(mine), call("word_count", text="a"), DONE)
    assert world.told()[-1] == "[result]\n1"
    await world.ask(python(f"```python\n{mine}\n```"), call("word_count", text="a"), DONE)
    assert world.told()[-1] == "[result]\n1"


async def test_a_new_version_is_used_from_the_next_request_on(world: World) -> None:
    """Wherever it was made."""
    world.library.add(made())
    await world.ask(call("word_count", text="a"), DONE)
    world.library.add(made(version=2, code="def word_count(text: str) -> int:\n    return -1\n"))
    await world.ask(call("word_count", text="a"), DONE)
    assert world.told()[-1] == "[result]\n-1"


async def test_another_tool_of_the_same_name_and_number_is_used(world: World) -> None:
    """Numbers begin anew where a tool was removed: what was defined before is not what is called."""
    world.library.add(made())
    await world.ask(call("word_count", text="a"), DONE)
    world.library.remove("word_count")
    world.library.add(made(code="def word_count(text: str) -> int:\n    return -1\n"))
    await world.ask(call("word_count", text="a"), DONE)
    assert world.told()[-1] == "[result]\n-1"


async def test_a_tool_that_was_changed_is_not_offered(world: World) -> None:
    """The person is told once, in a sentence; the other tools are there."""
    world.library.add(made())
    world.library.add(made(name="other_tool"))
    file = world.library.folder / "word_count" / "1.json"
    file.write_bytes(file.read_bytes().replace(b"len(", b"sum("))
    await world.ask(call("word_count", text="a"), DONE)
    assert world.offered() == ["other_tool"]
    (refused,) = world.of(ToolRefused)
    assert refused.tool == "word_count"
    assert refused.reason.startswith("The tool word_count 1 is not what was put into the library, and is not used.")
    assert "word_count is not a valid tool" in world.told()[0]
    assert world.kernel.codes == []
    (world.library.folder / "index.json").write_text("{")
    await world.ask(DONE)
    assert world.offered() == []
    assert "can't be read" in world.of(ToolRefused)[1].reason


async def test_a_library_that_breaks_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the index and the tool's file, by another process: the question goes on."""
    world.library.add(made())
    listed = Library.listed

    def look(library: Library) -> list[Any]:
        found = listed(library)
        (library.folder / "index.json").write_text("{")
        return found

    monkeypatch.setattr(Library, "listed", look)
    assert await world.ask(DONE) == "ok"
    assert world.offered() == []
    assert "can't be read" in world.of(ToolRefused)[0].reason


async def test_only_so_many_are_offered(world: World) -> None:
    """Those that were used last."""
    for number in range(OFFERED + 5):
        world.library.add(made(name=f"tool_{number:02}"))
    await world.ask(DONE)
    assert world.offered() == [f"tool_{number:02}" for number in range(5, OFFERED + 5)]


async def test_a_call_that_is_none_is_told(world: World) -> None:
    """What the tool has no parameter for; nothing runs."""
    world.library.add(made())
    await world.ask(call("word_count", words="a"), DONE)
    assert world.told() == ["Not called. The tool word_count has no parameter 'words'. It has: text, least."]
    assert world.kernel.codes == []


async def test_what_it_needs_is_installed_in_exactly_the_versions_that_it_was_tested_with(world: World) -> None:
    """Once, before it is defined; a no is told, and the tool is not called."""
    needs = Package(name="humanize", version="4.1", sha256="0" * 64)
    world.library.add(made(packages=(needs,)))
    world.kernel.raises = InstallRefused("humanize is not approved.")
    await world.ask(call("word_count", text="a"), DONE)
    assert world.told() == ["Not called: what it needs is not installed. humanize is not approved."]
    world.kernel.raises = None
    await world.ask(call("word_count", text="a"), call("word_count", text="b"), DONE)
    assert world.kernel.asked == [["humanize==4.1"], ["humanize==4.1"]]


async def test_a_person_is_asked(world: World) -> None:
    """About the call, then about the code that it defines; either may be turned down or edited."""
    world.library.add(made())
    world.consent.mode, world.consent.attended = Mode.ASK, True
    world.decisions = [{"decision": "reject", "reason": "Not now."}]
    await world.ask(call("word_count", text="a"), DONE)
    assert world.told() == ["Not called: this was not approved. Not now."]
    world.decisions = [{"decision": "approve"}, {"decision": "reject"}]
    await world.ask(call("word_count", text="a"), DONE)
    assert world.told()[-1] == "Not called: its definition was not approved."
    assert world.kernel.codes == []
    world.decisions = [{"decision": "edit", "code": "word_count('x y z')"}, {"decision": "approve"}]
    await world.ask(call("word_count", text="a"), DONE)
    assert world.told()[-1] == "[result]\n3"
    calls, definition = world.of(ApprovalAsked)[-2:]
    assert (calls.kind, calls.tool, calls.code) == ("cell", "word_count", "word_count(text='a')")
    assert definition.code == world.kernel.codes[0]


async def test_programs_that_a_tool_starts_are_asked_about(world: World) -> None:
    """They stand in its code and not in the call; where programs are asked about, it is one."""
    code = "import subprocess\n\n\ndef word_count(text: str) -> int:\n    return subprocess.call(['wc', '-w'])\n"
    world.library.add(made(code=code))
    world.consent.mode = Mode.AUTO_EDIT
    await world.ask(call("word_count", text="a"), DONE)
    assert [(each.kind, each.tool) for each in world.of(ApprovalAsked)] == [("shell", "word_count")]
    assert world.told()[0].startswith("Not called: this was not approved.")


async def test_making_is_asked_about_with_the_code_and_the_tests(world: World) -> None:
    """In every mode but never-ask; a no starts nothing."""
    world.consent.mode = Mode.AUTO_EDIT
    await world.ask(
        call("create_tool", name="word_count", description="Counts.", code=CODE, tests=TESTS),
        call("wrap_package", package="humanize", functions=["humanize.naturalsize"]),
        DONE,
    )
    create, wrap = world.of(ApprovalAsked)
    assert (create.kind, create.tool, create.what) == ("tool", "create_tool", "word_count")
    assert create.code == f"{CODE}\n\n# --- tests ---\n{TESTS}"
    assert (wrap.kind, wrap.tool, wrap.what) == ("tool", "wrap_package", "humanize: humanize.naturalsize")
    assert all(each.startswith("Not made: this was not approved.") for each in world.told())
    assert world.library.listed() == []


async def test_what_a_person_edits_is_what_is_made(world: World) -> None:
    """The code and the tests; without the line between them, the code alone."""
    world.consent.mode, world.consent.attended = Mode.ASK, True
    draft = {"name": "word_count", "description": "Counts.", "code": CODE, "tests": TESTS}
    world.decisions = [
        {"decision": "edit", "code": "x = 1"},
        {"decision": "edit", "code": f"{CODE}\n\n# --- tests ---\nx = 1"},
    ]
    await world.ask(call("create_tool", **draft), call("create_tool", **draft), DONE)
    code, tests = world.told()
    assert code.startswith("Not made. The code has no function word_count.")
    assert tests.startswith("Not made. The tests don't import the tool.")


async def test_who_lets_tools_be_made_has_not_let_cells_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule for tools speaks for their making: a definition is a cell, unless a person has seen the code."""

    async def make(_forge: ToolForge, _draft: Draft) -> Tool:
        return made(code=CODE.replace("def ", "import subprocess\n\n\ndef "))

    monkeypatch.setattr(ToolForge, "make", make)
    draft = {"name": "word_count", "description": "Counts.", "code": CODE, "tests": TESTS}
    world.consent.mode = Mode.ALLOW_LIST
    world.consent._rules = ["tool:*"]
    await world.ask(call("create_tool", **draft), DONE)
    assert [(each.kind, each.tool) for each in world.of(ApprovalAsked)] == [("shell", "word_count")]
    assert "It could not be defined in this notebook: its definition was not approved." in world.told()[0]
    assert world.kernel.codes == []
    world.consent.mode, world.consent.attended, world.consent._rules = Mode.ASK, True, []
    world.decisions = [{"decision": "approve"}]
    await world.ask(call("create_tool", **draft), DONE)
    assert [each.kind for each in world.of(ApprovalAsked)] == ["shell", "tool"]
    assert len(world.kernel.codes) == 1


async def test_a_draft_that_is_wrong_is_told(world: World) -> None:
    """Before a sandbox is started for it, in the words of the forge; it counts as an attempt that failed."""
    wrong = {"description": "x", "code": CODE, "tests": TESTS}
    await world.ask(
        call("create_tool", name="json", **wrong),
        call("create_tool", name="word_count", **{**wrong, "tests": "def test_a(): pass"}),
        call("create_tool", name="word_count", **{**wrong, "code": "\x00"}),
        call("wrap_package", package="humanize", functions=["naturalsize"]),
        DONE,
    )
    taken, tests, unusable, function = world.told()
    assert taken == "Not made. The name json is taken by something else. Use another, such as json_tool."
    assert tests.endswith("Begin them with: from word_count import word_count")
    assert unusable.startswith("Not run: line 1 has a NUL character")
    assert "names no function" in function
    results = [each for each in world.agent.history if each.type == "tool"]
    assert [each.artifact for each in results] == [{"status": "error"}] * 4
    assert {each.status for each in results} == {"error"}


async def test_a_call_that_is_written_as_text_is_no_answer(world: World) -> None:
    """Of these tools too: the model is told, and asked again."""
    world.library.add(made())
    written = Say(text='{"name": "word_count", "arguments": {"text": "a bb"}}')
    assert await world.ask(written, call("word_count", text="a bb"), Say(text="It has 2.")) == "It has 2."
    assert "instead of making it" in world.provider.requests[1]["messages"][-1]["content"]
    assert world.told() == ["[result]\n2"]


async def test_the_kernels_tools_go_on(world: World) -> None:
    """A call that isn't the forge's is passed on, and one of a tool that nobody has is told."""
    await world.ask(python("6 * 7"), call("no_such", a=1), DONE)
    assert world.told()[0] == "[result]\n42"
    assert "no_such is not a valid tool" in world.told()[1]
