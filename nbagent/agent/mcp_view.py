"""What the model sees of an MCP tool's result, within the bounds of `cell_view`. Pure: no SDK, no LangChain."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbagent.agent.cell_view import IMAGE_BYTES, IMAGES, STREAM_BYTES, TOTAL_BYTES, cut_middle
from nbagent.core.text import one_line, plain

if TYPE_CHECKING:
    from nbagent.agent.cell_view import Block

KINDS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8", "image/gif": b"GIF8", "image/webp": b"RIFF"}
"""The types of images that models take, and how each begins: a provider refuses a whole request for a wrong image."""


@dataclass(kw_only=True)
class _Seen:
    texts: list[str] = field(default_factory=list)
    images: list[Block] = field(default_factory=list)


def render(result: Any, *, refused: Sequence[str] = (), images: bool = False) -> str | list[Block]:
    """A result as the content of a tool's message.

    Args:
        result: The SDK's `CallToolResult`.
        refused: The protocol's methods that the server used meanwhile and was refused.
        images: Whether the model takes images; otherwise a sentence stands for each.

    Returns:
        Text; or, if there are images for the model, a text block and the image blocks.
    """
    seen = _Seen()
    for part in result.content:
        _take(seen, part, images=images)
    # The specification asks servers to give structured content as text too; it is shown if they don't.
    if not any(part.type == "text" for part in result.content) and result.structured_content is not None:
        seen.texts.append(_text(json.dumps(result.structured_content, ensure_ascii=False)))
    body, _ = cut_middle("\n".join(seen.texts), limit=TOTAL_BYTES)
    body = body if body.strip() or seen.images else "The tool returned nothing."
    if refused:
        body += f"\n[The server asked for {' and '.join(refused)}, which no server is given.]"
    if result.is_error:
        body = f"The tool reported an error: {body}"
    return [{"type": "text", "text": body or "See the image."}, *seen.images] if seen.images else body


def structured(result: Any) -> Any:
    """The structured content for the artifact if it is small, since every checkpoint keeps it; else None."""
    content = result.structured_content
    return content if content is not None and len(json.dumps(content)) <= STREAM_BYTES else None


def encodable(value: Any) -> Any:
    """A model's arguments without halves of surrogate pairs, which neither a message nor the log can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [encodable(each) for each in value]
    return {encodable(key): encodable(each) for key, each in value.items()} if isinstance(value, dict) else value


def _take(seen: _Seen, part: Any, *, images: bool) -> None:
    """Add one part of the content."""
    if part.type == "text":
        seen.texts.append(_text(part.text))
    elif part.type == "image":
        _take_image(seen, part.data, part.mime_type, images=images)
    elif part.type == "resource_link":
        seen.texts.append(one_line(f"[A link to the resource {part.uri}: {part.title or part.name}]"))
    elif part.type == "resource":
        _take_resource(seen, part.resource, images=images)
    else:
        seen.texts.append(one_line(f"[{part.type} that can't be shown]"))


def _take_resource(seen: _Seen, resource: Any, *, images: bool) -> None:
    text = getattr(resource, "text", None)
    if text is not None:
        seen.texts += [one_line(f"[Resource {resource.uri}]"), _text(text)]
    elif (resource.mime_type or "").startswith("image/"):
        _take_image(seen, resource.blob, resource.mime_type, images=images)
    else:
        what = f"{resource.mime_type or 'bytes'}, {len(resource.blob) * 3 // 4:,} bytes"
        seen.texts.append(one_line(f"[Resource {resource.uri}: {what}, not shown]"))


def _take_image(seen: _Seen, data: str, kind: str, *, images: bool) -> None:
    why = ""
    if not images:
        why = "this model takes no images"
    elif len(data) > IMAGE_BYTES:
        why = f"it has {len(data):,} bytes"
    elif len(seen.images) >= IMAGES:
        why = f"only {IMAGES} are shown"
    elif not _is_image(data, kind):
        why = "it is not what it says it is"
    if why:
        seen.texts.append(one_line(f"[An image, {kind}, not shown: {why}]"))
    else:
        seen.images.append({"type": "image", "base64": data, "mime_type": kind})


def _is_image(data: str, kind: str) -> bool:
    try:
        return base64.b64decode(data, validate=True).startswith(KINDS[kind])
    except (KeyError, binascii.Error, ValueError):
        return False


def _text(text: str) -> str:
    """The text of a part, without control characters, cut."""
    return cut_middle(plain(text))[0]
