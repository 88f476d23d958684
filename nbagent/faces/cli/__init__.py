"""The command line: options in, exit codes out."""

EXIT_STOPPED = 130
"""The exit code after Ctrl-C, as shells have it."""
