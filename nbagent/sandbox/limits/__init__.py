"""The bounds that Linux holds: system calls, control groups, users."""
