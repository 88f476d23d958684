"""How messages are fitted to a provider; how replies are judged over the wire is in test_build."""

from __future__ import annotations

from agent.stub import PNG
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from nbagent.agent.replies import images_after_results


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
