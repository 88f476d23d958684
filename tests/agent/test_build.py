"""The agent against a provider that speaks the real protocol."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agent.stub import PNG, Kernel, Provider, Say, answer, python
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from nbagent.agent.agent import Agent
from nbagent.agent.build import build_agent
from nbagent.agent.memory import THREAD
from nbagent.agent.messages.history import mend
from nbagent.agent.middleware.spending import Spending
from nbagent.agent.providers import failures
from nbagent.agent.providers.models import Model, open_model
from nbagent.core.budget import Budget
from nbagent.core.errors import InstallRefused, KernelDied, ModelCallError, ReplayError
from nbagent.core.events import Answer, ModelReplied, Usage


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "FIRST_DELAY", 0.01)


@pytest.fixture
def agent(provider: Provider, kernel: Kernel) -> Agent:
    """An agent on the stub, as a session builds one."""
    assert provider.url
    return build_agent(
        open_model("openai:gpt-4.1"), kernel, system_prompt="You test.", spending=Spending(Budget(steps=5))
    )


async def ask(agent: Agent, question: str = "Go", *, turn: int = 1) -> tuple[Answer, list[ModelReplied]]:
    """Ask, and gather the events."""
    replies: list[ModelReplied] = []
    return await answer(agent, question, on_reply=replies.append, turn=turn), replies


async def test_answers_in_text(agent: Agent, provider: Provider) -> None:
    """A reply without a call is the answer; the system prompt goes before the question, and usage is counted."""
    provider.say(Say(text="Forty two"))
    found, replies = await ask(agent, "What is it?", turn=3)
    assert (found.text, found.usage) == ("Forty two", Usage(input_tokens=100, output_tokens=10, calls=1))
    assert [(reply.turn, reply.text.strip(), reply.tools) for reply in replies] == [(3, "Forty two", [])]
    roles = [(message["role"], message["content"]) for message in provider.requests[0]["messages"]]
    assert roles == [("system", "You test."), ("user", "What is it?")]
    assert provider.requests[0]["stream_options"] == {"include_usage": True}


async def test_runs_a_cell_and_sees_its_output(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """A tool call runs in the kernel, and the model is sent the cell's output."""
    provider.say(Say(text="Let me see", calls=(python("6 * 7"),)), Say(text="42"))
    found, replies = await ask(agent)
    assert kernel.codes == ["6 * 7"]
    assert found.text == "42"
    assert found.usage == Usage(input_tokens=200, output_tokens=20, calls=2)
    assert [reply.tools for reply in replies] == [["python"], []]
    assert provider.sent()[-1]["content"] == "[result]\n42"


async def test_events_come_before_their_cells(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """A reply is reported before its tools run: whoever watches reads the plan, then sees the cell."""
    order: list[str] = []
    provider.say(Say(calls=(python("1"),)), Say(text="done"))
    await answer(agent, "Go", on_reply=lambda reply: order.append(f"{reply.tools} {len(kernel.codes)}"), turn=1)
    assert order == ["['python'] 0", "[] 1"]


async def test_works_without_streaming(provider: Provider, kernel: Kernel) -> None:
    """A model that doesn't stream gives the same conversation."""
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    chat = ChatOpenAI(model="m", base_url=provider.url, api_key=SecretStr("k"), use_responses_api=False)
    plain = build_agent(Model(chat=chat, name="openai:m"), kernel, system_prompt="You test.")
    provider.say(Say(text="Look", calls=(python("6 * 7"),)), Say(text="42"))
    found, _ = await ask(plain)
    assert (found.text, found.usage) == ("42", Usage(input_tokens=200, output_tokens=20, calls=2))
    assert "stream" not in provider.requests[0] or not provider.requests[0]["stream"]


async def test_parallel_calls_run_one_at_a_time_in_order(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """Calls of one reply run in the order in which they were written, never two at once."""
    kernel.pause = 0.01
    codes = ["x = 1", "x += 1", "x *= 10", "x += 5", "x"]
    provider.say(Say(calls=tuple(python(code) for code in codes)), Say(text="25"))
    await ask(agent)
    assert kernel.codes == codes
    assert not kernel.overlapped
    assert provider.sent()[-1]["content"] == "[result]\n25"
    sent = [message["tool_call_id"] for message in provider.sent() if message["role"] == "tool"]
    assert sent == [call["id"] for call in provider.sent()[1]["tool_calls"]]


async def test_order_holds_when_middleware_delays_a_call(provider: Provider, kernel: Kernel) -> None:
    """Middleware that holds the first call up, such as an approval, doesn't let the second one pass it."""

    class Slow(AgentMiddleware[Any, Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            await asyncio.sleep(0.05 if "first" in request.tool_call["args"]["code"] else 0)
            return await handler(request)

    delayed = build_agent(open_model("openai:m"), kernel, system_prompt="s", middleware=[Slow()])
    provider.say(Say(calls=(python("'first'"), python("'second'"))), Say(text="ok"))
    await ask(delayed)
    assert kernel.codes == ["'first'", "'second'"]


async def test_calls_with_the_same_or_no_id(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """Calls that a careless server gave one id, or none, are told apart."""
    provider.say(Say(calls=(python("1"), python("2"), python("3")), ids=("same", "same", "")), Say(text="ok"))
    found, _ = await ask(agent)
    assert (found.text, kernel.codes) == ("ok", ["1", "2", "3"])
    assert [message["content"][-1] for message in provider.sent() if message["role"] == "tool"] == ["1", "2", "3"]


async def test_an_unknown_tool_is_told_to_the_model(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """A call of a tool that isn't there names those that are; a call beside it still runs."""
    provider.say(Say(calls=(("search", '{"q": "x"}'), python("1"))), Say(text="ok"))
    found, replies = await ask(agent)
    assert found.text == "ok"
    assert replies[0].tools == ["search", "python"]
    told = [message["content"] for message in provider.sent() if message["role"] == "tool"]
    assert "python, install" in told[0]
    assert kernel.codes == ["1"]


@pytest.mark.parametrize("arguments", ["code=1", "[1]", '"1"'])
async def test_arguments_that_are_no_json_object(agent: Agent, provider: Provider, arguments: str) -> None:
    """Malformed arguments are told to the model, which is then asked again."""
    provider.say(Say(calls=(("python", arguments),)), Say(text="sorry"))
    found, replies = await ask(agent)
    assert found.text == "sorry"
    assert replies[0].tools == ["python"]
    assert "not valid JSON" in provider.sent()[-1]["content"]


async def test_malformed_and_good_calls_in_one_reply(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """The good call runs, and each call has exactly one result."""
    provider.say(Say(calls=(("python", "nonsense"), python("7"))), Say(text="ok"))
    await ask(agent)
    assert kernel.codes == ["7"]
    asked = [call["id"] for call in provider.sent()[1]["tool_calls"]]
    assert sorted(asked) == sorted(message["tool_call_id"] for message in provider.sent() if message["role"] == "tool")


async def test_malformed_calls_count_towards_the_limit(agent: Agent, provider: Provider) -> None:
    """A model that only ever sends malformed calls is stopped like any other."""
    provider.say(*[Say(calls=(("python", "nonsense"),))] * 9)
    found, replies = await ask(agent)
    assert (found.success, len(replies)) == (False, 5)


async def test_wrong_arguments_are_told(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """A call without its argument says which one is missing."""
    provider.say(Say(calls=(("python", '{"source": "1"}'),)), Say(text="ok"))
    await ask(agent)
    assert kernel.codes == []
    assert "code" in provider.sent()[-1]["content"]


async def test_a_call_cut_at_the_token_limit_does_not_run(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """Half of the code must not run as if it were all of it, though LangChain completes its JSON."""
    provider.say(Say(calls=(("python", '{"code": "import shutil\\nshutil.rmtree(folder'),), finish="length"))
    provider.say(Say(text="ok"))
    await ask(agent)
    assert kernel.codes == []
    assert "smaller cells" in provider.sent()[-1]["content"]


async def test_a_refused_install_is_text_for_the_model(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """The model reads why, and what the person could do."""
    kernel.raises = InstallRefused("evil is on the deny list.", mend="Ask the person.")
    provider.say(Say(calls=(("install", '{"packages": ["evil"]}'),)), Say(text="no"))
    await ask(agent)
    assert provider.sent()[-1]["content"] == "Not installed. evil is on the deny list. Ask the person."


async def test_a_failing_sandbox_ends_the_turn(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """It is no text for the model; the calls behind it never start, and the next question works."""
    kernel.raises = KernelDied("The kernel died.")
    provider.say(Say(calls=(python("1"), python("2"))))
    with pytest.raises(KernelDied):
        await ask(agent)
    assert kernel.codes == ["1"]
    kernel.raises = None
    provider.say(Say(text="better"))
    found, _ = await ask(agent, "Again", turn=2)
    assert found.text == "better"
    _assert_each_call_answered(provider.sent())


async def test_one_conversation(agent: Agent, provider: Provider) -> None:
    """The second question is sent with the first and its answer."""
    provider.say(Say(text="one"), Say(text="two"))
    await ask(agent, "First?")
    await ask(agent, "Second?", turn=2)
    assert [message["content"].strip() for message in provider.sent()] == ["First?", "one", "Second?"]


async def test_checkpoints_do_not_pile_up(agent: Agent, provider: Provider) -> None:
    """A conversation of many cells and questions is kept once, not once a step."""
    for turn in range(1, 4):
        provider.say(Say(calls=(python("1"),)), Say(calls=(python("2"),)), Say(text="ok"))
        await ask(agent, turn=turn)
    assert len(list(agent.graph.checkpointer.list(THREAD))) == 1
    assert len(provider.sent()) == 3 * 6 - 1


async def test_the_limit_of_calls(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """A model that never stops is stopped and told so; the next question has calls of its own."""
    provider.say(*[Say(calls=(python("1"),))] * 5)
    found, replies = await ask(agent)
    assert not found.success
    assert "5 calls" in found.text
    assert found.usage.calls == len(replies) == len(kernel.codes) == 5
    provider.say(Say(text="fresh"))
    found, _ = await ask(agent, "Next", turn=2)
    assert (found.text, found.success) == ("fresh", True)
    assert [message["role"] for message in provider.sent()[-2:]] == ["assistant", "user"]


async def test_an_empty_reply_is_asked_for_again(agent: Agent, provider: Provider) -> None:
    """Once; both calls are paid for, and the reminder doesn't stay in the conversation."""
    provider.say(Say(), Say(text="here"), Say(text="more"))
    found, replies = await ask(agent)
    assert (found.text, len(replies)) == ("here", 1)
    assert found.usage == Usage(input_tokens=200, output_tokens=20, calls=2)
    assert "empty" in provider.sent(1)[-1]["content"]
    await ask(agent, "More?", turn=2)
    assert "empty" not in json.dumps(provider.sent())


async def test_two_empty_replies_are_an_error(agent: Agent, provider: Provider) -> None:
    """The error says what the provider gave as the reason."""
    provider.say(Say(finish="content_filter"), Say(finish="content_filter"))
    with pytest.raises(ModelCallError, match=r"openai:gpt-4\.1 replied twice with nothing.*content_filter"):
        await ask(agent)


@pytest.mark.parametrize("cut", ["closed", "broken"])
async def test_a_cut_stream_is_asked_for_again(agent: Agent, provider: Provider, kernel: Kernel, cut: Any) -> None:
    """A stream that breaks off is no reply, however it ends: nothing of it runs, and the model is asked again."""
    provider.say(Say(calls=(python("print('a long text')"),), cut=cut), Say(text="whole"))
    found, replies = await ask(agent)
    assert (found.text, len(replies), kernel.codes) == ("whole", 1, [])


@pytest.mark.parametrize("cut", ["closed", "broken"])
async def test_streams_that_always_break(agent: Agent, provider: Provider, cut: Any) -> None:
    """After three of them it is an error in one sentence."""
    provider.say(*[Say(text="a b c d e f", cut=cut)] * 6)
    with pytest.raises(ModelCallError, match=r"broke off|connection to 127"):
        await ask(agent)
    assert len(provider.requests) == 3


async def test_retry_after_is_waited_for(agent: Agent, provider: Provider) -> None:
    """A rate limit is waited out for as long as the server asks, then the call is made again."""
    provider.say(Say(status=429, headers=(("Retry-After", "1"),)), Say(text="ok"))
    found, _ = await ask(agent)
    assert found.text == "ok"
    assert provider.times[1] - provider.times[0] >= 1.0


async def test_a_server_error_is_tried_again(agent: Agent, provider: Provider) -> None:
    """One failure of the server isn't seen by anybody."""
    provider.say(Say(status=500), Say(text="ok"))
    found, _ = await ask(agent)
    assert (found.text, found.usage.calls) == ("ok", 1)


@pytest.mark.parametrize(
    ("status", "sentence", "requests"),
    [
        (401, r"openai refused the key \(401\)\. Check OPENAI_API_KEY", 1),
        (403, r"openai refused the key \(403\)", 1),
        (404, r"127\.0\.0\.1:\d+ has no model 'gpt-4\.1' \(404\)", 1),
        (400, r"openai refused the request \(400\): .*stub says 400", 1),
        (429, r"limits the rate.*429.*stub says 429", 2),
        (503, r"127\.0\.0\.1:\d+ failed \(503\)", 2),
    ],
)
async def test_failures_in_one_sentence(
    agent: Agent, provider: Provider, status: int, sentence: str, requests: int
) -> None:
    """What a person reads says what happened and where; only what may pass is tried again, once here."""
    provider.say(*[Say(status=status)] * 3)
    with pytest.raises(ModelCallError, match=sentence) as caught:
        await ask(agent)
    assert len(provider.requests) == requests
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1
    provider.script[:] = [Say(text="back")]
    found, _ = await ask(agent, "Still there?", turn=2)
    assert found.text == "back"
    assert [message["role"] for message in provider.sent()] == ["user", "assistant", "user"]


async def test_no_server_at_all(agent: Agent, provider: Provider) -> None:
    """A refused connection names the host that was asked."""
    provider.close()
    with pytest.raises(ModelCallError, match=r"The connection to 127\.0\.0\.1:\d+ failed\."):
        await ask(agent)


async def test_cancelled_while_a_cell_runs(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """The next question works, and the model reads which call has no result; one that was done keeps its own."""
    kernel.hangs = "stopped"
    provider.say(Say(calls=(python("'done'"), python("'stopped'"))))
    task = asyncio.create_task(ask(agent))
    await kernel.hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    provider.say(Say(text="on we go"))
    found, _ = await ask(agent, "Go on", turn=2)
    assert found.text == "on we go"
    _assert_each_call_answered(provider.sent())
    told = [message["content"] for message in provider.sent() if message["role"] == "tool"]
    assert told[0] == "[result]\n'done'"
    assert "Stopped" in told[1]
    assert provider.sent()[-1]["content"] == "Go on"


async def test_cancelled_while_the_model_thinks(agent: Agent, provider: Provider) -> None:
    """A question without an answer is told as such; the one after it is answered."""
    provider.say(Say(text="too late", pause=0.5), Say(text="ok"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask(agent, "First"), 0.2)
    found, _ = await ask(agent, "Second", turn=2)
    assert found.text == "ok"
    assert [message["role"] for message in provider.sent()] == ["user", "assistant", "user"]


async def test_a_replay_runs_out(tmp_path: Path, kernel: Kernel) -> None:
    """The error of the replay reaches the session as it is, and the place in the file survives questions."""
    file = tmp_path / "r.jsonl"
    call = {"content": "", "tool_calls": [{"name": "python", "args": {"code": "x = 2"}}]}
    file.write_text("\n".join(json.dumps(line) for line in (call, {"content": "a"}, {"content": "b"})))
    replayed = build_agent(open_model(f"replay:{file}"), kernel, system_prompt="s")
    assert (await ask(replayed))[0].text == "a"
    assert (await ask(replayed, turn=2))[0].text == "b"
    with pytest.raises(ReplayError, match="it has 3 replies, and the conversation asked for one more"):
        await ask(replayed, turn=3)
    assert kernel.codes == ["x = 2"]


async def test_a_recording_replays_the_same_conversation(provider: Provider, kernel: Kernel, tmp_path: Path) -> None:
    """What was recorded from a provider gives the same cells, answer and usage, malformed and empty replies too."""
    file = tmp_path / "r.jsonl"
    recorded = build_agent(open_model("openai:m", record=file), kernel, system_prompt="s")
    provider.say(
        Say(text="Look", calls=(python("1 + 1"), python("print('ü')"))),
        Say(calls=(("python", "nonsense"),)),
        Say(),
        Say(calls=(("install", '{"packages": ["humanize"]}'),)),
        Say(text="cut off here please", cut="closed"),
        Say(text="Two"),
    )
    first, first_events = await ask(recorded)
    again = Kernel()
    second, second_events = await ask(build_agent(open_model(f"replay:{file}"), again, system_prompt="s"))
    assert (second.text, second.usage, second_events) == (first.text, first.usage, first_events)
    assert (again.codes, again.asked) == (kernel.codes, kernel.asked) == (["1 + 1", "print('ü')"], [["humanize"]])


async def test_figures_go_where_the_model_takes_them(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """In chat completions a result is text only, so its figures follow in a message of their own."""
    kernel.extra = [{"output_type": "display_data", "data": {"image/png": PNG, "text/plain": "<Figure>"}}]
    provider.say(Say(calls=(python("1"), python("2"))), Say(text="I see"))
    await ask(agent)
    sent = provider.sent()
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert (
        "figure 1: PNG, 2×3, attached" in sent[2]["content"][0]["text"]
        if isinstance(sent[2]["content"], list)
        else ("figure 1: PNG, 2×3, attached" in sent[2]["content"])
    )
    assert [block["type"] for block in sent[4]["content"]] == ["text", "image_url", "image_url"]
    assert sent[4]["content"][1]["image_url"]["url"].endswith(PNG)


async def test_a_model_without_eyes_is_told_of_figures(provider: Provider, kernel: Kernel) -> None:
    """A model that LangChain has no profile of gets a sentence instead of an image."""
    kernel.extra = [{"output_type": "display_data", "data": {"image/png": PNG}}]
    blind = build_agent(open_model("openai:some-local-model"), kernel, system_prompt="s")
    provider.say(Say(calls=(python("1"),)), Say(text="ok"))
    await ask(blind)
    assert provider.sent()[-1]["content"] == "[result]\n1\n[figures]\n[figure 1: PNG, 2×3]"


async def test_the_answer_is_cleaned(agent: Agent, provider: Provider) -> None:
    """Images and download links are taken out of the answer; the event keeps the model's own words."""
    text = "See ![plot](x.png) and [the table](sandbox:/tmp/output/t.csv)."
    provider.say(Say(text=text))
    found, replies = await ask(agent)
    assert found.text == "See  and `t.csv`."
    assert replies[0].text.strip() == text


async def test_a_question_of_broken_characters(agent: Agent, provider: Provider) -> None:
    """Half a surrogate pair, as from a bad paste, is replaced: it can't be sent."""
    provider.say(Say(text="ok"))
    await ask(agent, "a\ud800b")
    assert provider.sent()[0]["content"] == "a?b"


async def test_programming_errors_are_not_the_providers(agent: Agent, provider: Provider, kernel: Kernel) -> None:
    """A bug in a tool or in a callback is raised as it is, never dressed as a failed model call."""
    kernel.raises = ZeroDivisionError("a bug")
    provider.say(Say(calls=(python("1"),)))
    with pytest.raises(ZeroDivisionError):
        await ask(agent)


def test_mend_leaves_a_good_conversation_alone() -> None:
    """Nothing is added where each call has its result and each question its answer."""
    calls = [tool_call(name="python", args={}, id="1")]
    good: list[AnyMessage] = [
        HumanMessage("q"),
        AIMessage("", tool_calls=calls),
        ToolMessage("r", tool_call_id="1"),
        AIMessage("a"),
    ]
    assert mend(good) == good
    assert mend([]) == []


def test_mend_keeps_the_results_that_are_there() -> None:
    """Only the call without a result gets one, next to its reply."""
    calls = [tool_call(name="python", args={}, id=name) for name in ("1", "2")]
    broken: list[AnyMessage] = [HumanMessage("q"), AIMessage("", tool_calls=calls), ToolMessage("r", tool_call_id="1")]
    mended = mend(broken)
    assert {message.tool_call_id for message in mended if isinstance(message, ToolMessage)} == {"1", "2"}
    assert isinstance(mended[-1], AIMessage)


def _assert_each_call_answered(messages: list[dict[str, Any]]) -> None:
    """Providers refuse a conversation in which a call has no result, or a result stands elsewhere."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls
            open_calls.discard(message["tool_call_id"])
        else:
            assert not open_calls
        open_calls |= {call["id"] for call in message.get("tool_calls") or []}
    assert not open_calls
