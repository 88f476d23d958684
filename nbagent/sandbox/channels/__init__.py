"""The connection to a kernel: ZeroMQ's protocol over sockets."""
