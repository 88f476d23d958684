"""A tool of the model whose arguments are described by a JSON Schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from langchain_core.tools import BaseTool


class AnyTool(BaseTool):
    """A tool whose arguments may have any name; `call` gets them as a dictionary.

    LangChain's own tools get them as keywords, which loses an argument named `config` or `run_manager`, and fails for
    `self`.
    """

    call: Callable[[dict[str, Any]], Awaitable[tuple[Any, Any]]]
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"

    def _to_args_and_kwargs(
        self,
        tool_input: str | dict[str, Any],
        tool_call_id: str | None,  # noqa: ARG002 - the base's
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tool_input,), {}

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Such tools are called from an event loop.")

    async def _arun(self, arguments: dict[str, Any]) -> tuple[Any, Any]:
        return await self.call(arguments)
