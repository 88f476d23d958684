"""Tools of other programs, through the Model Context Protocol (MCP).

`servers` reads which servers a person has, `stdio` and `http` carry messages to them within bounds, `connection` is one
server with its health, `client` is all of them, `catalog` is what is known of a tool, `seen` notices when that changes,
and `capabilities` and `select` decide which tools a question needs.

Servers run with the person's rights, outside of the sandbox: a person chooses them, nbagent never does. What they say
is another matter. Their words (names, descriptions, results) are untrusted, bounded and cleaned here.

The protocol itself is the official SDK's (`pip install 'nbagent[mcp]'`), imported when the first server is started.
"""
