"""A conversation of LangChain's own agent with a model that recounts what it was asked, and one tool."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver

from nbagent.state import ThreadMemory


class Recounting(BaseChatModel):
    """Calls the tool once for each question, then lists the questions that it remembers."""

    @property
    def _llm_type(self) -> str:
        return "recounting"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """It knows the tool."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if isinstance(messages[-1], ToolMessage):
            asked = [message.text for message in messages if isinstance(message, HumanMessage)]
            reply = AIMessage(f"{len(asked)} questions: " + ", ".join(asked[-5:]))
        else:
            reply = AIMessage("", tool_calls=[{"name": "python", "args": {"code": "1"}, "id": f"c{len(messages)}"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


@tool
def python(code: str) -> str:
    """Run code."""
    return f"ran {code} " + "x" * 1000


class Conversation:
    """A conversation with LangChain's agent: its messages in memory, and a thread for each turn."""

    def __init__(self, checkpointer: BaseCheckpointSaver[Any]) -> None:
        self.graph: Any = create_agent(Recounting(), [python], checkpointer=checkpointer)
        self.threads = ThreadMemory(checkpointer, "session-1")
        self.history: list[BaseMessage] = []

    async def resume(self) -> None:
        """Go on after a restart."""
        if config := await self.threads.newest():
            self.history = (await self.graph.aget_state(config)).values["messages"]

    async def ask(self, question: str) -> str:
        """One turn."""
        messages = [*self.history, HumanMessage(question)]
        state = await self.graph.ainvoke({"messages": messages}, await self.threads.begin(), durability="exit")
        self.threads.ended()
        self.history = state["messages"]
        return str(self.history[-1].text)
