"""How messages are fitted to a provider; how replies are judged over the wire is in test_build."""

from __future__ import annotations

from agent.stub import PNG
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from nbagent.agent.messages.fitting import images_after_results, refusals_in_words, without_images


def test_images_stay_in_order_behind_their_results() -> None:
    """Each batch of results keeps its own figures, and the conversation given is not changed."""
    image = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    result = ToolMessage([{"type": "text", "text": "t"}, image], tool_call_id="1")
    moved = images_after_results([HumanMessage("q"), result, AIMessage("a"), result])
    assert [message.type for message in moved] == ["human", "tool", "human", "ai", "tool", "human"]
    assert isinstance(result.content, list)
    assert len(result.content) == 2


def test_a_conversation_without_images_is_as_it_was() -> None:
    """Nothing is added where there is nothing to move."""
    messages: list[AnyMessage] = [HumanMessage("q"), ToolMessage("text", tool_call_id="1"), AIMessage("a")]
    assert images_after_results(messages) == messages


def test_refusals_become_words_behind_the_results() -> None:
    """A call that ran keeps its result next to it; the one beside it that was unreadable is told after that."""
    bad = invalid_tool_call(name="python", args="", id="bad", error=None)
    reply = AIMessage("", tool_calls=[tool_call(name="python", args={}, id="ok")], invalid_tool_calls=[bad])
    results = [ToolMessage("Not run", tool_call_id="bad"), ToolMessage("42", tool_call_id="ok")]
    moved = refusals_in_words([HumanMessage("q"), reply, *results, AIMessage("a")])
    told = [(message.type, message.text) for message in moved[2:]]
    assert told == [("tool", "42"), ("human", "Not run"), ("ai", "a")]
    alone = refusals_in_words([AIMessage("", invalid_tool_calls=[bad]), results[0]])
    assert [message.type for message in alone] == ["ai", "human"]
    assert alone[0].text


def test_a_model_without_eyes_is_told_where_figures_were() -> None:
    """Their number stands in the result, and the conversation given is not changed."""
    image = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    result = ToolMessage([{"type": "text", "text": "t"}, image, image], tool_call_id="1")
    (told,) = without_images([result])
    assert told.content == "t\n[2 figures not shown: this model takes no images]"
    assert len(result.content) == 3
