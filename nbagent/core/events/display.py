"""How a cell and an answer show themselves in a notebook of the person's own, as MIME bundles. Pure.

A sandbox and a model wrote what they hold, so the person's notebook gets pictures, plain text, and Markdown that loads
nothing and has no markup of its own.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator
from typing import Any

from nbagent.core.markdown import clean_markdown
from nbagent.core.text import joined, plain

PICTURES = ("image/png", "image/jpeg")
MAX_TEXT = 100_000
"""Characters of one output."""


def publish(bundles: Iterable[dict[str, str]]) -> None:
    """Show bundles in the IPython that asks for them."""
    from IPython.display import publish_display_data

    for each in bundles:
        publish_display_data(each)


def folded(title: str, code: str) -> dict[str, str]:
    """Code behind a line that opens it."""
    shown = f"<details><summary>{html.escape(title)}</summary><pre>{html.escape(code)}</pre></details>"
    return {"text/html": shown, "text/plain": f"{title}\n{code}"}


def outputs_of(outputs: Iterable[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Outputs as figures and text."""
    for output in outputs:
        data = output.get("data") or {}
        picture = next((mime for mime in PICTURES if mime in data), None)
        if picture is not None:
            text = "".join(joined(data[picture]).split())
            try:
                # Encoded again: what a sandbox sent as base64 may hold more than that.
                content = base64.b64encode(base64.b64decode(text, validate=True)).decode()
            except ValueError:
                continue
            yield {picture: content, "text/plain": "<Figure>"}
            continue
        if output["output_type"] == "stream":
            said = joined(output["text"])
        elif output["output_type"] == "error":
            said = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
        else:
            said = joined(data.get("text/plain", ""))
        if said := plain(said).strip("\n"):
            yield {"text/plain": said[:MAX_TEXT] + ("…" if len(said) > MAX_TEXT else "")}


def markdown(text: str) -> dict[str, str]:
    """A model's words as Markdown, in which no picture or markup is one, and as text."""
    said = plain(text)
    return {"text/markdown": clean_markdown(said), "text/plain": said}


def brief(text: str, limit: int = 60) -> str:
    """The beginning of a text on one line, for a `repr`."""
    line = " ".join(text.split())
    return repr(line if len(line) <= limit else line[: limit - 1] + "…")
