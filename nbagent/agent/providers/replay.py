"""The model that gives recorded replies, and the recorder that writes them.

A replay file is JSON Lines, a reply a line:

    {"content": "text", "tool_calls": [{"name": "python", "args": {"code": "1 + 1"}}]}

A reply can also have `usage` (tokens), `invalid_tool_calls` (calls whose arguments were no JSON), `again` (it came
after an answer was sent back, see `evaluate.py`), `structured` (its text is an object, see `structured.py`) and
`seconds` (over which its words come, as a model's would). The sandbox, the code that runs, the installs and the outputs
of a replay are real.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import PrivateAttr

from nbagent.agent.messages.reply import text_of
from nbagent.agent.providers.attempt import WATCH
from nbagent.core.errors import ReplayError, StoreError

Name = Annotated[str, msgspec.Meta(min_length=1)]
Tokens = Annotated[int, msgspec.Meta(ge=0)]


class RecordedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call."""

    name: Name
    args: dict[str, Any]


class RecordedInvalidCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call whose arguments could not be read; `args` is what the model sent instead."""

    name: Name
    args: str
    error: str = ""


class RecordedUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens of one reply."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0


class RecordedReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a replay file."""

    content: str | msgspec.UnsetType = msgspec.UNSET
    tool_calls: list[RecordedCall] = []
    invalid_tool_calls: list[RecordedInvalidCall] = []
    usage: RecordedUsage | None = None
    again: bool = False
    """Whether it came after an answer was sent back."""
    structured: bool = False
    """Whether its text is an object, `GeneratedCode` or `FinalAnswer`."""
    seconds: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0.0
    """Seconds over which its words come; at 0 the reply is there at once."""


def read_replies(path: Path) -> list[RecordedReply]:
    """All replies of a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        why = "it is a folder" if path.is_dir() else (error.strerror or str(error)).lower()
        raise ReplayError(f"Can't read the replay file {path}: {why}.") from None
    replies = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            replies.append(_reply(line, where=f"{path}, line {number}"))
    if not replies:
        raise ReplayError(f"The replay file {path} has no replies.", mend="Record one with --record FILE.")
    return replies


def _reply(line: bytes, *, where: str) -> RecordedReply:
    try:
        line.decode("utf-8")
        reply = msgspec.json.decode(line, type=RecordedReply)
    except UnicodeDecodeError:
        raise ReplayError(f"{where}: this is not UTF-8 text.", mend="A replay file is JSON Lines.") from None
    except msgspec.DecodeError as error:
        raise ReplayError(f"{where}: {error}.", mend='A reply is {"content": "…", "tool_calls": […]}.') from None
    if reply.content is msgspec.UNSET and not reply.tool_calls and not reply.invalid_tool_calls:
        raise ReplayError(f"{where}: the reply has neither content nor tool_calls.")
    return reply


class ReplayModel(BaseChatModel):
    """A chat model that gives the replies of a file, in order, whatever it is asked.

    Each object reads the file from its beginning; the questions of one session continue one recording.
    """

    path: Path
    replies: list[Any]
    streaming: bool = False
    _next: int = PrivateAttr(default=0)

    @classmethod
    def open(cls, path: Path) -> ReplayModel:
        """Read a file.

        Raises:
            ReplayError: The file can't be read, or a line is no reply.
        """
        replies = read_replies(path)
        if not any(each.seconds for each in replies):
            return cls(path=path, replies=replies)
        return cls(path=path, replies=replies, streaming=True, callbacks=[WATCH])

    @property
    def _llm_type(self) -> str:
        return "nbagent-replay"

    @property
    def next_was_sent_back(self) -> bool:
        """Whether the next reply was recorded after an answer had been sent back."""
        return self._next < len(self.replies) and bool(self.replies[self._next].again)

    @property
    def is_structured(self) -> bool:
        """Whether the replies are objects instead of calls."""
        return any(each.structured for each in self.replies)

    @property
    def remaining(self) -> int:
        """The number of replies that were not given yet."""
        return len(self.replies) - self._next

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:  # noqa: ARG002 - the base's
        """The model itself, whose calls are recorded already."""
        return self

    def _pop(self) -> tuple[int, RecordedReply]:
        if not self.remaining:
            count = f"{len(self.replies)} {'reply' if len(self.replies) == 1 else 'replies'}"
            raise ReplayError(
                f"The replay file {self.path} ran out: it has {count}, and the conversation asked for one more.",
                mend="Record the whole conversation with --record FILE.",
            )
        self._next += 1
        reply: RecordedReply = self.replies[self._next - 1]
        return self._next, reply

    def _generate(
        self,
        messages: list[BaseMessage],  # noqa: ARG002 - the base's
        stop: list[str] | None = None,  # noqa: ARG002 - the base's
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the base's
        **kwargs: Any,  # noqa: ARG002 - the base's
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_message(*self._pop()))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the base's
        **kwargs: Any,
    ) -> ChatResult:
        # Not in a thread, as in the base class: two threads could swap two replies.
        return self._generate(messages, stop, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],  # noqa: ARG002 - the base's
        stop: list[str] | None = None,  # noqa: ARG002 - the base's
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002 - the base's
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(*self._pop()):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],  # noqa: ARG002 - the base's
        stop: list[str] | None = None,  # noqa: ARG002 - the base's
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002 - the base's
    ) -> AsyncIterator[ChatGenerationChunk]:
        number, reply = self._pop()
        chunks = list(_chunks(number, reply))
        for chunk in chunks:
            await asyncio.sleep(reply.seconds / len(chunks))
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def _message(number: int, reply: RecordedReply) -> AIMessage:
    """A reply as the message that a provider would have given; `number` makes its calls' ids unique."""
    return AIMessage(
        content=reply.content or "",
        tool_calls=[
            tool_call(name=call.name, args=call.args, id=f"replay_{number}_{index}")
            for index, call in enumerate(reply.tool_calls, start=1)
        ],
        invalid_tool_calls=[
            invalid_tool_call(name=call.name, args=call.args, error=call.error, id=f"replay_{number}_invalid_{index}")
            for index, call in enumerate(reply.invalid_tool_calls, start=1)
        ],
        usage_metadata=_usage(reply),
    )


def _usage(reply: RecordedReply) -> UsageMetadata | None:
    if reply.usage is None:
        return None
    given, made = reply.usage.input_tokens, reply.usage.output_tokens
    return UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)


def _chunks(number: int, reply: RecordedReply) -> Iterator[ChatGenerationChunk]:
    """A reply in pieces: each word, then each call."""
    message = _message(number, reply)
    for word in re.findall(r"\s*\S+|\s+\Z", message.text):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))
    calls = [(call["name"], json.dumps(call["args"]), call["id"]) for call in message.tool_calls]
    # Like a provider's: LangChain tries to complete arguments that are no JSON when it joins the pieces.
    calls += [(str(call["name"]), str(call["args"]), call["id"]) for call in message.invalid_tool_calls]
    for index, (name, args, call_id) in enumerate(calls):
        piece = tool_call_chunk(name=name, args=args, id=call_id, index=index)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[piece]))
    yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=message.usage_metadata))


class Recorder:
    """Writes each reply of a model to a new file, in the format that `replay:` reads.

    Args:
        path: The file, which must be empty or not exist: two conversations in one file would replay as another one.

    Raises:
        StoreError: It exists, or can't be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.exists() and path.stat().st_size:
                raise StoreError(f"{path} exists already.", mend="Record into a new file.")
            path.touch()
        except OSError as error:
            raise StoreError(f"Can't record into {path}: {(error.strerror or str(error)).lower()}.") from None

    def write(self, message: AIMessage, *, again: bool = False, structured: bool = False) -> None:
        """Append one reply.

        Args:
            message: What the model said.
            again: Whether it came after an answer was sent back.
            structured: Whether the model replies with objects instead of calls.

        Raises:
            StoreError: The file can't be written.
        """
        # A lone surrogate, which no UTF-8 file can hold, becomes a question mark.
        reply = msgspec.to_builtins(_record(message, again=again, structured=structured))
        line = json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace")
        try:
            with self.path.open("ab") as file:
                file.write(line + b"\n")
        except OSError as error:
            raise StoreError(f"Can't record into {self.path}: {(error.strerror or str(error)).lower()}.") from None


def _record(message: AIMessage, *, again: bool, structured: bool) -> RecordedReply:
    """A provider's message as a reply of a replay file; content blocks become text."""
    usage = message.usage_metadata
    return RecordedReply(
        content=text_of(message),
        tool_calls=[RecordedCall(call["name"] or "unknown", call["args"]) for call in message.tool_calls],
        invalid_tool_calls=[
            RecordedInvalidCall(call["name"] or "unknown", call["args"] or "", call["error"] or "")
            for call in message.invalid_tool_calls
        ],
        usage=RecordedUsage(usage["input_tokens"], usage["output_tokens"]) if usage else None,
        again=again,
        structured=structured,
    )
