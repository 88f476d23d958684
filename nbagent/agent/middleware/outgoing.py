"""The last middleware before the model: it takes secrets out of each request, and reports what leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage, SystemMessage

from nbagent.agent.messages.pieces import Pieces, described_tools, figures_of
from nbagent.agent.middleware.types import Middleware, ModelHandler
from nbagent.agent.providers.models import Model, model_of
from nbagent.agent.turn import Turn
from nbagent.core.events import Piece, SentToModel
from nbagent.safety.redaction import Redactor


def untraced() -> AbstractContextManager[None]:
    """Keep LangChain from tracing to LangSmith in this context, whatever the environment says.

    The traces would hold secrets, and pass by the ledger. nbagent's own traces are OpenTelemetry's.
    """
    from langsmith import tracing_context

    return tracing_context(enabled=False)


class Outgoing(Middleware):
    """Redacts each request, and emits an event with the pieces that its host had not been sent before.

    It must be the innermost middleware: it doesn't see what a middleware inside of it adds.

    Args:
        models: The agent's model and its fallbacks.
        redact: Hides secrets in a text; by the default rules if not given.
        described: The part of the system prompt that describes the data.
    """

    def __init__(self, models: Sequence[Model], *, redact: Redactor | None = None, described: str = "") -> None:
        super().__init__()
        self._models = models
        self._redact = redact or Redactor()
        self._described = described
        self._last = Pieces(self._redact, before={})
        self._sent: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._tools: tuple[list[Any], str] = [], ""
        """The tools of the last request, with their description, which costs as much as all else here."""

    async def awrap_model_call(self, request: ModelRequest[Turn], handler: ModelHandler) -> ModelResponse[Any]:
        """Call the model with the redacted request."""
        pieces = self._last = Pieces(self._redact, before=self._last.checked)
        figures = figures_of(request.state["messages"])
        system = request.system_message
        checked = request.override(
            system_message=pieces.system(system, described=self._described) if system else None,
            messages=[pieces.message(each, figures=figures) for each in request.messages],
        )
        if request.tools != self._tools[0]:
            self._tools = [*request.tools], described_tools(request.tools)
        pieces.tools(self._tools[1])
        self._tell(model_of(request.model, self._models), pieces.found, turn=request.runtime.context, purpose="answer")
        return await handler(checked)

    def critique(self, model: Model, messages: Sequence[AnyMessage], turn: Turn) -> list[AnyMessage]:
        """The messages as they may be sent to a critic, whose requests don't pass through the agent's middleware."""
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
                resent=len(pieces) - len(new),
                purpose=purpose,
            )
        )
