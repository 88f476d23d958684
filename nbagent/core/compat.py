"""Every private name of a dependency that nbagent uses, and why; `tests/core/test_compat.py` checks each of them.

A dependency may change such a name in any version. So each name stands here once, `pyproject.toml` bounds the versions
of its dependency, and a test fails before a person's session does. Nothing is imported here: whoever uses a name has
its owner at hand.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    # The SDK publishes `Transport`, but not the types that a transport yields.
    from mcp.client._transport import ReadStream as ReadStream
    from mcp.client._transport import TransportStreams as TransportStreams


class Private(NamedTuple):
    """A private name.

    Attributes:
        owner: The class or module that has the name, as `module:name` or `module`.
        why: The use for which there is no public name.
    """

    owner: str
    name: str
    why: str

    def of(self, thing: Any) -> Any:
        """The object's attribute of this name; None if there is none."""
        return getattr(thing, self.name, None)


def hush_langchain() -> None:
    """Ignore the warning with which LangChain is imported on Python 3.14, about code that nbagent doesn't use.

    The packages that import LangChain call this, so that a program which only looks at sessions keeps its filters as
    they are. The filter lasts as long as the process, but holds for this sentence and LangChain's modules alone. Around
    the import, `warnings.catch_warnings` would be worse: LangChain is imported in a thread, and at its end every filter
    that other threads have set meanwhile would be undone.
    """
    if sys.version_info >= (3, 14):
        warnings.filterwarnings("ignore", message="Core Pydantic V1", category=UserWarning, module="langchain")


# -- models: `agent/providers/`

ANTHROPIC_CLIENT: Final = Private(
    "langchain_anthropic:ChatAnthropic", "_async_client", "is closed with the session; a chat model can't be"
)
OLLAMA_CLIENT: Final = Private("langchain_ollama:ChatOllama", "_async_client", "the same")
GROQ_CLIENT: Final = Private("groq.resources.chat.completions:AsyncCompletions", "_client", "the same")
HTTP_CLIENTS: Final = tuple(
    Private(owner, "_client", "a hook of this model alone reads its streams; see `agent/providers/partial.py`")
    for owner in ("openai:AsyncOpenAI", "anthropic:AsyncAnthropic", "groq:AsyncGroq")
)
STREAM: Final = Private(
    "langchain_core.language_models:BaseChatModel", "_astream", "is wrapped for one model; see the same"
)
RESPONSES_RULE: Final = Private(
    "langchain_openai:ChatOpenAI", "_use_responses_api", "tells which of OpenAI's interfaces takes an image in a result"
)
PROVIDERS: Final = Private(
    "langchain.chat_models.base", "_BUILTIN_PROVIDERS", "the package of a provider that only LangChain knows"
)

# -- tools and states

TOOL_ARGUMENTS: Final = Private(
    "langchain_core.tools:BaseTool", "_to_args_and_kwargs", "loses arguments with certain names; see `AnyTool`"
)
BATCHES: Final = Private(
    "langgraph.store.base.batch:AsyncBatchedBaseStore", "_task", "ends with the store instead of with the garbage"
)

# -- processes

TRANSPORT: Final = Private("asyncio.subprocess:Process", "_transport", "its pipes warn when they are garbage")

# -- the kernel's own process, where nothing of nbagent can be imported: `sandbox/inside/`

IPYKERNEL: Final = (
    Private("ipykernel.iostream:OutStream", "_original_stdstream_copy", "what nobody reads must not stop who prints"),
    Private("ipykernel.iostream:OutStream", "_should_watch", "whether what programs print is read"),
    Private("ipykernel.iostream:OutStream", "_fid", "the pipe from which it is"),
    Private("ipykernel.iostream:OutStream", "_watch_pipe_fd", "reads it in order with what Python prints"),
    Private("ipykernel.iostream:OutStream", "_is_master_process", "tells a fork, which must not read it"),
    Private("ipykernel.iostream:OutStream", "_flush_buffers", "cuts text into messages of a bounded size"),
    Private("ipykernel.iostream:OutStream", "_flush", "sends what was flushed before it first"),
    Private("ipykernel.iostream:OutStream", "_buffers", "whether there is anything to send"),
    Private("ipykernel.iostream:OutStream", "_io_loop", "sends what was flushed too often a moment later"),
    Private("ipykernel.kernelbase:Kernel", "_execute_sleep", "a reply is not held back"),
    Private("ipykernel.heartbeat:Heartbeat", "_bind_socket", "listens on a socket that was handed over"),
    Private("ipykernel.kernelapp:IPKernelApp", "_bind_socket", "the same"),
    Private("ipykernel.kernelapp:IPKernelApp", "_session_default", "its messages have a bounded size"),
)
