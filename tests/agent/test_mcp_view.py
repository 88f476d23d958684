"""What the model sees of an MCP tool's result."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest
from agent.stub import PNG
from mcp.types import CallToolResult

from nbagent.agent.mcp_view import encodable, render, structured


def result(*content: dict[str, Any], **more: Any) -> CallToolResult:
    """A result as it comes over the wire."""
    return CallToolResult.model_validate({"content": list(content), **more})


def text(words: str) -> dict[str, Any]:
    """A part that is text."""
    return {"type": "text", "text": words}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def test_text_is_cleaned_and_joined() -> None:
    """Colours, titles and control characters are gone."""
    assert render(result(text("\x1b[31mred\x1b]0;title\x07\x00"), text("two"))) == "red\ntwo"


def test_text_is_bounded_by_part_and_as_a_whole() -> None:
    """10 KB of each part and 40 KB of all, with what is missing counted."""
    one = render(result(text("x" * 1_000_000)))
    assert isinstance(one, str)
    assert len(one) < 11_000
    assert "989,760 of 1,000,000 bytes" in one
    many = render(result(*[text("x" * 10_000)] * 30))
    assert len(many) < 42_000


def test_an_error_is_called_one() -> None:
    """The model reads that the tool failed, in the tool's words."""
    assert render(result(text("no such city"), isError=True)) == "The tool reported an error: no such city"


def test_nothing_is_told() -> None:
    """An empty message is refused by some providers."""
    assert render(result()) == "The tool returned nothing."
    assert render(result(text(" "))) == "The tool returned nothing."


def test_structured_content_counts_where_there_is_no_text() -> None:
    """It is not shown twice."""
    assert render(result(structuredContent={"a": "ü"})) == '{"a": "ü"}'
    both = result(text("a is 1"), structuredContent={"a": 1})
    assert (render(both), structured(both)) == ("a is 1", {"a": 1})
    assert structured(result(structuredContent={"a": "x" * 20_000})) is None


def test_images_are_blocks_where_the_model_takes_them() -> None:
    """As LangChain's standard content blocks; otherwise told in a sentence."""
    assert render(result(text("See"), IMAGE), images=True) == [
        {"type": "text", "text": "See"},
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
    ]
    assert render(result(IMAGE)) == "[An image, image/png, not shown: this model takes no images]"
    shown = render(result(*[IMAGE] * 6), images=True)
    assert [block["type"] for block in shown if isinstance(block, dict)] == ["text"] + ["image"] * 4


@pytest.mark.parametrize(
    ("data", "kind"),
    [("AAAA", "image/png"), ("no base64!", "image/png"), (PNG, "image/tiff"), (PNG, "image/jpeg"), (PNG, "text/html")],
)
def test_what_is_no_image_is_not_sent_as_one(data: str, kind: str) -> None:
    """A provider would refuse the whole request."""
    shown = render(result({"type": "image", "data": data, "mimeType": kind}), images=True)
    assert shown == f"[An image, {kind}, not shown: it is not what it says it is]"


def test_a_huge_image_is_told() -> None:
    """3 MB are not sent to a model."""
    huge = base64.b64encode(base64.b64decode(PNG) + bytes(3_000_000)).decode()
    assert "it has 4,000" in str(render(result({**IMAGE, "data": huge}), images=True))


def test_resources_links_and_sounds() -> None:
    """Text of a resource is shown, an image too, all else is told; a link is not followed."""
    parts = [
        {"type": "resource", "resource": {"uri": "shelf://a", "text": "words"}},
        {"type": "resource", "resource": {"uri": "shelf://b", "blob": "AAAA", "mimeType": "application/zip"}},
        {"type": "resource", "resource": {"uri": "shelf://c", "blob": PNG, "mimeType": "image/png"}},
        {"type": "resource_link", "uri": "file:///etc/passwd", "name": "a\x1b[2Jb"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    ]
    shown = render(result(*parts), images=True)
    assert isinstance(shown, list)
    assert shown[0]["text"].splitlines() == [
        "[Resource shelf://a]",
        "words",
        "[Resource shelf://b: application/zip, 3 bytes, not shown]",
        "[A link to the resource file:///etc/passwd: ab]",
        "[audio that can't be shown]",
    ]
    assert shown[1]["type"] == "image"


def test_what_a_server_was_refused_is_told() -> None:
    """The model knows why the answer may be poor."""
    shown = render(result(text("no")), refused=["sampling/createMessage"])
    assert shown == "no\n[The server asked for sampling/createMessage, which no server is given.]"


def test_a_kind_of_content_that_is_unknown() -> None:
    """A later protocol may have more."""
    unknown = SimpleNamespace(content=[SimpleNamespace(type="smell")], structured_content=None, is_error=False)
    assert render(unknown) == "[smell that can't be shown]"


def test_half_a_character_is_replaced() -> None:
    """A model's JSON may hold what UTF-8 can't."""
    assert encodable({"a\ud800": ["\udfff🐧", 1, None, {"b": True}]}) == {"a?": ["?🐧", 1, None, {"b": True}]}
