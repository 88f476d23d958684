"""What people and other programs use: the command line, the terminal, scripts, MCP clients."""
