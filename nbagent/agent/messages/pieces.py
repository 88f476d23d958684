"""A request to a model, piece by piece: the source and size of each piece, and its text without secrets.

The model's own words are sent back unchanged: it knows them, and the arguments of its calls are what ran.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from nbagent.agent.messages.asides import is_question, source_of_results
from nbagent.agent.messages.reply import text_of
from nbagent.core.events import Piece
from nbagent.safety.redaction import Redacted

HIDDEN: Final = "[nbagent: {what} hidden here before this was sent to you.{where}]"
"""The note behind a text in which something was hidden."""
RUN: Final = ("data description", "cell ", "tool sandbox_")
"""Prefixes of the sources whose whole text is in the sandbox."""


class _Checked(NamedTuple):
    """A text as it may leave, with its size in bytes and its hash."""

    redacted: Redacted
    size: int
    sha256: str


_Checks = Mapping[tuple[str, bool | None], _Checked]


class Pieces:
    """The pieces of one request.

    Args:
        redact: Hides secrets in a text.
        before: The texts that were checked for the last request, most of which are sent again.

    Attributes:
        found: The pieces so far.
        checked: The texts that were checked, for the next request.
    """

    def __init__(
        self, redact: Callable[[str], Redacted], *, before: Mapping[tuple[str, bool | None], _Checked]
    ) -> None:
        self._redact = redact
        self._before = before
        self.checked: dict[tuple[str, bool | None], _Checked] = {}
        self.found: list[Piece] = []

    def system(self, message: SystemMessage, *, described: str) -> SystemMessage:
        """The system prompt as it may leave."""
        text = str(message.text)
        start, data, end = text.partition(described) if described else (text, "", "")
        named = [("system prompt", start), ("data description", data), ("system prompt", end)]
        parts = [self._text(source, part) for source, part in named if part]
        return message if "".join(parts) == text else message.model_copy(update={"content": "".join(parts)})

    def tools(self, described: str) -> None:
        """The tools that the model is offered, see `described_tools`."""
        self._keep("tools", described)

    def message(self, message: AnyMessage, *, source: str = "", figures: Mapping[str, str]) -> AnyMessage:
        """A message as it may leave.

        Args:
            message: A message of the conversation.
            source: Where it is from, if the message itself doesn't tell.
            figures: The sources of figures, by their base64.
        """
        if isinstance(message, AIMessage):
            self._keep("reply", _words(message))
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
        """A text without its secrets, with a note for the model if it had any."""
        checked = self._check(text, inside=source.startswith(RUN))
        self._add(source, checked)
        return checked.redacted.text

    def _keep(self, source: str, text: str) -> None:
        """Add a text that leaves as it is."""
        self._add(source, self._check(text, inside=None))

    def _add(self, source: str, checked: _Checked) -> None:
        if checked.size:
            self.found.append(Piece(source, checked.size, checked.sha256, list(checked.redacted.kinds)))

    def _check(self, text: str, *, inside: bool | None) -> _Checked:
        """A text as it may leave; unchanged if `inside` is None."""
        key = (text, inside)
        if key not in self.checked:
            self.checked[key] = self._before.get(key) or self._redact_text(text, inside=inside)
        return self.checked[key]

    def _redact_text(self, text: str, *, inside: bool | None) -> _Checked:
        redacted = Redacted(text) if inside is None else self._redact(text)
        if redacted.kinds:
            redacted = redacted._replace(text=f"{redacted.text}\n{_note(len(redacted.kinds), inside=bool(inside))}")
        sent = redacted.text.encode("utf-8", "replace")
        return _Checked(redacted, len(sent), hashlib.sha256(sent).hexdigest())


def described_tools(tools: Sequence[Any]) -> str:
    """Tools in the form that most providers take; empty without any."""
    described = [each if isinstance(each, dict) else convert_to_openai_tool(each) for each in tools]
    return json.dumps(described, ensure_ascii=False) if described else ""


def source_of(message: AnyMessage) -> str:
    """The source of a message: a cell or another tool, a question of the person, or a note of nbagent."""
    if isinstance(message, ToolMessage):
        artifact = message.artifact if isinstance(message.artifact, dict) else {}
        if "cell" in artifact:
            return f"cell {artifact['cell']}"
        return f"tool {message.name or 'unknown'}"
    if source := source_of_results(message):
        return source
    # A message that middleware adds for one request has no id.
    return "question" if is_question(message) and message.id else "note"


def figures_of(messages: Sequence[AnyMessage]) -> dict[str, str]:
    """The sources of the figures in a conversation, by their base64: a provider may want them in another message."""
    found: dict[str, str] = {}
    for message in messages:
        if isinstance(message, ToolMessage) and isinstance(message.content, list):
            for block in message.content:
                if isinstance(block, dict) and isinstance(encoded := block.get("base64"), str):
                    found[encoded] = f"figure of {source_of(message)}"
    return found


def _words(reply: AIMessage) -> str:
    """A reply's words, then the arguments of its calls."""
    calls = [json.dumps(call["args"], ensure_ascii=False) for call in reply.tool_calls]
    return "".join([text_of(reply), *calls, *(call["args"] or "" for call in reply.invalid_tool_calls)])


def _note(count: int, *, inside: bool) -> str:
    what = "a secret was" if count == 1 else f"{count} secrets were"
    return HIDDEN.format(what=what, where=" Code in cells has the whole text." if inside else "")
