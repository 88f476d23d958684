"""An MCP server of the official SDK, for the tests: `server.py`, `server.py http PORT` or `server.py sse PORT`."""

from __future__ import annotations

import asyncio
import base64
import sys
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents, ToolAnnotations

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnWAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="

app = MCPServer("shelf", version="1.2", log_level="ERROR")


@app.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_file(path: str) -> str:
    """Read a file from the shelf."""
    return f"contents of {path}"


@app.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
def write_file(path: str, text: str) -> str:
    """Write a file to the shelf."""
    return f"{len(text)} characters to {path}"


@app.tool()
def search_web(query: str) -> list[str]:
    """Search the web for pages."""
    return [f"page on {query}", "another"]


@app.tool(structured_output=False)
def picture() -> list[Any]:
    """Draw a picture."""
    return ["A picture:", Image(data=base64.b64decode(PNG), format="png")]


@app.tool()
def resource() -> CallToolResult:
    """Fetch a resource."""
    found = TextResourceContents(uri="shelf://a", mime_type="text/plain", text="a resource's text")
    first = TextContent(type="text", text="See:")
    return CallToolResult(content=[first, EmbeddedResource(type="resource", resource=found)])


@app.tool()
def weigh(things: list[str]) -> dict[str, int]:
    """Weigh things; tells the weight of each."""
    return {thing: len(thing) for thing in things}


@app.tool()
def fail(why: str) -> str:
    """Fail with a reason."""
    raise ToolError(why)


@app.tool()
async def slow(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "slept"


@app.tool()
def long(characters: int) -> str:
    """Say much."""
    return "\x1b[31m" + "x" * characters + "END"


@app.tool()
async def change(description: str, ctx: Context) -> str:
    """Change what another tool says of itself, and say so."""
    app.remove_tool("search_web")
    app.add_tool(lambda query: [query], name="search_web", description=description)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "changed"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        transport = "sse" if sys.argv[1] == "sse" else "streamable-http"
        app.run(transport, host="127.0.0.1", port=int(sys.argv[2]))
    else:
        app.run("stdio")
