"""A request to a model, piece by piece: what each is, how many bytes, and without its secrets.

The model's own words go back as they came: it knows them, and the arguments of its calls are what ran.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from nbagent.agent.asides import is_question, source_of_results
from nbagent.agent.providers.replay import text_of
from nbagent.core.events import Piece
from nbagent.safety.redaction import Redacted

HIDDEN: Final = "[nbagent: {what} hidden here before this was sent to you.{where}]"
"""What the model is told in a text that something was hidden in."""
RUN: Final = ("data description", "cell ", "tool sandbox_")
"""How sources begin whose whole text is in the sandbox."""


class _Known(NamedTuple):
    """What was found in a text."""

    redacted: Redacted
    size: int
    sha256: str


class Pieces:
    """The pieces of one request.

    Args:
        redact: Hides secrets in a text.
        before: What an earlier request has found out of its texts, most of which are sent again.

    Attributes:
        found: The pieces so far.
        known: What was found out of the texts, for the next request.
    """

    def __init__(self, redact: Callable[[str], Redacted], *, before: Mapping[tuple[str, bool | None], _Known]) -> None:
        self._redact = redact
        self._before = before
        self.known: dict[tuple[str, bool | None], _Known] = {}
        self.found: list[Piece] = []

    def system(self, message: SystemMessage, *, described: str) -> SystemMessage:
        """The system prompt as it may leave.

        Args:
            message: The prompt.
            described: What of it describes the data, which is the person's.
        """
        text = str(message.text)
        start, data, end = text.partition(described) if described else (text, "", "")
        named = [("system prompt", start), ("data description", data), ("system prompt", end)]
        parts = [self._text(source, part) for source, part in named if part]
        return message if "".join(parts) == text else message.model_copy(update={"content": "".join(parts)})

    def tools(self, tools: Sequence[Any]) -> None:
        """The tools that the model is offered, in the form that most providers take."""
        shown = [each if isinstance(each, dict) else convert_to_openai_tool(each) for each in tools]
        if shown:
            self._keep("tools", json.dumps(shown, ensure_ascii=False))

    def message(self, message: AnyMessage, *, source: str = "", figures: Mapping[str, str]) -> AnyMessage:
        """A message as it may leave.

        Args:
            message: Any of the conversation.
            source: What it is, where the message can't tell.
            figures: By the base64 of a figure, what it is.
        """
        if isinstance(message, AIMessage):
            self._keep("reply", _said(message))
            return message
        source = source or source_of(message)
        if isinstance(message.content, str):
            content: Any = self._text(source, message.content)
        else:
            content = [self._block(source, block, figures) for block in message.content]
        return message if content == message.content else message.model_copy(update={"content": content})

    def _block(self, source: str, block: Any, figures: Mapping[str, str]) -> Any:
        if isinstance(block, str):
            return self._text(source, block)
        if isinstance(block.get("text"), str):
            text = self._text(source, block["text"])
            return block if text == block["text"] else {**block, "text": text}
        if isinstance(encoded := block.get("base64"), str):
            self._keep(figures.get(encoded, f"figure of {source}"), encoded)
        else:
            self._keep(source, json.dumps(block, ensure_ascii=False, default=str))
        return block

    def _text(self, source: str, text: str) -> str:
        """A text of the person's, without its secrets; the model is told that there were some."""
        known = self._looked_at(text, inside=source.startswith(RUN))
        self._add(source, known)
        return known.redacted.text

    def _keep(self, source: str, text: str) -> None:
        """A text that leaves as it is."""
        self._add(source, self._looked_at(text, inside=None))

    def _add(self, source: str, known: _Known) -> None:
        if known.size:
            self.found.append(Piece(source, known.size, known.sha256, list(known.redacted.kinds)))

    def _looked_at(self, text: str, *, inside: bool | None) -> _Known:
        """What there is to know of a text; None for `inside` if it leaves as it is."""
        key = (text, inside)
        if key not in self.known:
            self.known[key] = self._before.get(key) or self._look(text, inside=inside)
        return self.known[key]

    def _look(self, text: str, *, inside: bool | None) -> _Known:
        redacted = Redacted(text) if inside is None else self._redact(text)
        if redacted.kinds:
            redacted = redacted._replace(text=f"{redacted.text}\n{_note(len(redacted.kinds), inside=bool(inside))}")
        sent = redacted.text.encode("utf-8", "replace")
        return _Known(redacted, len(sent), hashlib.sha256(sent).hexdigest())


def source_of(message: AnyMessage) -> str:
    """What a message is: of a person, of nbagent, or the result of a call."""
    if isinstance(message, ToolMessage):
        artifact = message.artifact if isinstance(message.artifact, dict) else {}
        if "cell" in artifact:
            return f"cell {artifact['cell']}"
        return f"tool {message.name or 'unknown'}"
    if source := source_of_results(message):
        return source
    # What middleware adds for this request alone has no id.
    return "question" if is_question(message) and message.id else "note"


def figures_of(messages: Sequence[AnyMessage]) -> dict[str, str]:
    """By the base64 of each figure in a conversation, what it is, wherever the provider wants it."""
    found: dict[str, str] = {}
    for message in messages:
        if isinstance(message, ToolMessage) and isinstance(message.content, list):
            for block in message.content:
                if isinstance(block, dict) and isinstance(encoded := block.get("base64"), str):
                    found[encoded] = f"figure of {source_of(message)}"
    return found


def _said(reply: AIMessage) -> str:
    """A reply as text: its words, then the arguments of its calls."""
    calls = [json.dumps(call["args"], ensure_ascii=False) for call in reply.tool_calls]
    return "".join([text_of(reply), *calls, *(call["args"] or "" for call in reply.invalid_tool_calls)])


def _note(count: int, *, inside: bool) -> str:
    what = "a secret was" if count == 1 else f"{count} secrets were"
    return HIDDEN.format(what=what, where=" Code in cells has the whole text." if inside else "")
