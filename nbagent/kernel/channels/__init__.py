"""The wire to a kernel: sockets, messages, bounds."""
