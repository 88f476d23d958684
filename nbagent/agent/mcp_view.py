"""What the model sees of an MCP tool's result. Pure: no SDK, no LangChain.

Bounded like a cell's outputs (`view`): each part and the whole, with what is left out counted where it is missing.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbagent.agent.view import IMAGE_BYTES, IMAGES, STREAM_BYTES, TOTAL_BYTES, cut
from nbagent.core.text import one_line, plain

if TYPE_CHECKING:
    from nbagent.agent.view import Block

KINDS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8", "image/gif": b"GIF8", "image/webp": b"RIFF"}
"""What models take as images, with how each must begin: a provider refuses the whole request otherwise."""


@dataclass(kw_only=True)
class _Seen:
    texts: list[str] = field(default_factory=list)
    images: list[Block] = field(default_factory=list)


def render(result: Any, *, asked: Sequence[str] = (), images: bool = False) -> str | list[Block]:
    """A result as the content of a tool's message.

    Args:
        result: The SDK's `CallToolResult`.
        asked: What the server asked for meanwhile and was refused, by the protocol's methods.
        images: Whether the model takes images; otherwise each is told in a sentence.

    Returns:
        Text; or, if there are images for the model, a text block and the image blocks.
    """
    seen = _Seen()
    for part in result.content:
        _take(seen, part, images=images)
    # Structured content stands in a text too, as the specification asks; it counts where there is none.
    if not any(part.type == "text" for part in result.content) and result.structured_content is not None:
        seen.texts.append(_text(json.dumps(result.structured_content, ensure_ascii=False)))
    body, _ = cut("\n".join(seen.texts), limit=TOTAL_BYTES)
    body = body if body.strip() or seen.images else "The tool returned nothing."
    if asked:
        body += f"\n[The server asked for {' and '.join(asked)}, which no server is given.]"
    if result.is_error:
        body = f"The tool reported an error: {body}"
    return [{"type": "text", "text": body or "See the image."}, *seen.images] if seen.images else body


def structured(result: Any) -> Any:
    """The structured content for the artifact, if it is small; it is kept with every checkpoint."""
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
        seen.texts.append(_line(f"[A link to the resource {part.uri}: {part.title or part.name}]"))
    elif part.type == "resource":
        _take_resource(seen, part.resource, images=images)
    else:
        seen.texts.append(_line(f"[{part.type} that can't be shown]"))


def _take_resource(seen: _Seen, resource: Any, *, images: bool) -> None:
    text = getattr(resource, "text", None)
    if text is not None:
        seen.texts += [_line(f"[Resource {resource.uri}]"), _text(text)]
    elif (resource.mime_type or "").startswith("image/"):
        _take_image(seen, resource.blob, resource.mime_type, images=images)
    else:
        what = f"{resource.mime_type or 'bytes'}, {len(resource.blob) * 3 // 4:,} bytes"
        seen.texts.append(_line(f"[Resource {resource.uri}: {what}, not shown]"))


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
        seen.texts.append(_line(f"[An image, {kind}, not shown: {why}]"))
    else:
        seen.images.append({"type": "image", "base64": data, "mime_type": kind})


def _is_image(data: str, kind: str) -> bool:
    try:
        return base64.b64decode(data, validate=True).startswith(KINDS[kind])
    except (KeyError, binascii.Error, ValueError):
        return False


def _text(text: str) -> str:
    """One part of a result, without what steers a terminal, cut."""
    return cut(plain(text))[0]


def _line(text: str) -> str:
    """Words about a part, in which the server has a say."""
    return one_line(text)
