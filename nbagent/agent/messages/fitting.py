"""A conversation in the form that a provider takes. Pure: each function returns new messages and changes none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage


def images_after_results(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Move the images of results into a message behind them, where every provider takes them."""
    moved: list[AnyMessage] = []
    held: list[Any] = []
    for message in [*messages, None]:
        if held and not isinstance(message, ToolMessage):
            moved.append(HumanMessage([{"type": "text", "text": "The figures of these cells:"}, *held]))
            held = []
        if isinstance(message, ToolMessage) and isinstance(message.content, list):
            images = [block for block in message.content if isinstance(block, dict) and block.get("type") == "image"]
            held += images
            message = message.model_copy(update={"content": message.text}) if images else message
        if message is not None:
            moved.append(message)
    return moved


def without_images(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Replace images by a note of how many there were, for a model that takes none."""
    fitted: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage | HumanMessage) and isinstance(message.content, list):
            figures = sum(isinstance(block, dict) and block.get("type") == "image" for block in message.content)
            note = f"\n[{figures} figure{'s' if figures > 1 else ''} not shown: this model takes no images]"
            message = message.model_copy(update={"content": f"{message.text}{note if figures else ''}"})
        fitted.append(message)
    return fitted


def refusals_in_words(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Turn calls that could not be read, and what the model was told of them, into plain text.

    langchain-google-genai would send such a call without its result, which Gemini refuses.
    """
    moved: list[AnyMessage] = []
    held: list[AnyMessage] = []
    refused: set[str | None] = set()
    for message in [*messages, None]:
        if held and not isinstance(message, ToolMessage):
            moved += held
            held = []
        if isinstance(message, ToolMessage) and message.tool_call_id in refused:
            held.append(HumanMessage(message.text))
            continue
        if isinstance(message, AIMessage):
            refused = {call["id"] for call in message.invalid_tool_calls}
            if refused and not message.tool_calls:
                message = AIMessage(message.text or "[A call that can't be read.]")
        if message is not None:
            moved.append(message)
    return moved
