"""What people and other programs use. A face talks to an `AnySession`, and never asks which process owns it.

cli/        the command line: `app` has the commands, `flags` their options
terminal/   what a terminal shows and asks
magic/      `%agent` in a notebook or IPython
lab/        the server part of the JupyterLab panel
blocking    `BlockingSession`, for scripts
mcp_server  an MCP server; `mcp_http` serves it over HTTP, `mcp_access` guards that
selfcheck/  attacks on a sandbox, for `nbagent doctor --self-check`
demo/       the data and recorded replies of `nbagent demo`
"""
