"""Tools of other programs, through the Model Context Protocol (MCP).

    servers             reads which servers a person has
    client              all of them
    server_connection   one of them, connected anew when the `link` to it, over stdio or HTTP, is lost
    stdio               carries messages to a program, which `keeper` ends; `meter` bounds what it sends
    catalog             makes its tools fit for a model; `seen` notices when they change
    select              chooses the tools that a question needs, by `capabilities` and `constraints`

Servers run with the person's rights, outside of the sandbox: a person chooses them, nbagent never does. What they say
is another matter. Their words (names, descriptions, results) are untrusted, bounded and cleaned here.

The protocol itself is the official SDK's (`pip install 'nbagent[mcp]'`), imported when the first server is started.
"""
