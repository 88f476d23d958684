"""How a kernel is reached: ZeroMQ's protocol over a socket."""
