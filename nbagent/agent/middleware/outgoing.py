"""The last middleware before the model: what leaves is without secrets, and is written down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage, SystemMessage

from nbagent.agent.middleware.replies import Handler
from nbagent.agent.pieces import Pieces, figures_of
from nbagent.agent.providers.models import Model, model_of
from nbagent.agent.turn import Turn
from nbagent.core.events import Piece, SentToModel
from nbagent.safety.redaction import Redactor


def untraced() -> AbstractContextManager[None]:
    """While the agent works, whatever the environment says: nothing of it goes to LangSmith.

    LangChain would send it all there, with its secrets, and past the ledger. nbagent's own traces are OpenTelemetry's.
    """
    from langsmith import tracing_context

    return tracing_context(enabled=False)


class Outgoing(AgentMiddleware[AgentState[Any], Any, Any]):
    """Redacts each request, and tells what of it a host is sent for the first time.

    It has to be the innermost: what a middleware behind it adds, it does not see.

    Args:
        models: The agent's.
        redact: Hides secrets in a text; the usual ones by default.
        described: What of the system prompt describes the data.
    """

    def __init__(self, models: Sequence[Model], *, redact: Redactor | None = None, described: str = "") -> None:
        super().__init__()
        self._models = models
        self._redact = redact or Redactor()
        self._described = described
        self._last = Pieces(self._redact, before={})
        self._sent: dict[str, set[tuple[str, str]]] = defaultdict(set)

    async def awrap_model_call(self, request: ModelRequest[Turn], handler: Handler) -> ModelResponse[Any]:
        """Call the model with what may leave."""
        pieces = self._last = Pieces(self._redact, before=self._last.known)
        figures = figures_of(request.state["messages"])
        system = request.system_message
        checked = request.override(
            system_message=pieces.system(system, described=self._described) if system else None,
            messages=[pieces.message(each, figures=figures) for each in request.messages],
        )
        pieces.tools(request.tools)
        self._tell(model_of(request.model, self._models), pieces.found, turn=request.runtime.context, purpose="answer")
        return await handler(checked)

    def critique(self, model: Model, messages: Sequence[AnyMessage], turn: Turn) -> list[AnyMessage]:
        """What a critic may be sent, who is no part of the agent."""
        pieces = Pieces(self._redact, before={})
        checked = [
            pieces.message(each, source="note" if isinstance(each, SystemMessage) else "attempts", figures={})
            for each in messages
        ]
        self._tell(model, pieces.found, turn=turn, purpose="critique")
        return checked

    def _tell(
        self, model: Model, pieces: Sequence[Piece], *, turn: Turn, purpose: Literal["answer", "critique"]
    ) -> None:
        sent = self._sent[model.host]
        new = [each for name, each in {(each.source, each.sha256): each for each in pieces}.items() if name not in sent]
        sent.update((each.source, each.sha256) for each in new)
        turn.emit(
            SentToModel(
                turn=turn.number,
                model=model.name,
                host=model.host,
                size=sum(each.size for each in pieces),
                pieces=new,
                again=len(pieces) - len(new),
                purpose=purpose,
            )
        )
