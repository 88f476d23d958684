"""What hostile code does to its controller: the kernel's end of the sockets is its own, and so is the signing key."""

from __future__ import annotations

from typing import Final

TOOLS: Final = '''
import os, socket, struct

def raw(port=2):
    """The kernel's own end of a client's connection to a channel, 2 being IOPub and 1 shell."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            end = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        try:
            name, _ = end.getsockname(), end.getpeername()
        except OSError:
            continue
        if end.family == socket.AF_UNIX and isinstance(name, str) and name.endswith(f"k-{port}"):
            end.setblocking(True)
            return end

def frame(body, more=False):
    return bytes([2 | more]) + struct.pack(">Q", len(body)) + body

def message(kind, content, signature=None):
    kernel = get_ipython().kernel
    made = kernel.session.msg(kind, content, parent=kernel.get_parent())
    parts = [b"topic", b"<IDS|MSG>", b"", *(kernel.session.pack(made[part]) for part in
             ("header", "parent_header", "metadata", "content"))]
    parts[2] = kernel.session.sign(parts[3:]) if signature is None else signature
    return b"".join(frame(part, number < len(parts)) for number, part in enumerate(parts, start=1))
'''
ENDLESS: Final = TOOLS + "end = raw()\nwhile True: end.sendall(frame(b'x' * 1_000_000, more=True))"
BREACHES: Final = {
    # libzmq writes to the same socket meanwhile; where it does between two pieces of a frame, nothing fits together.
    "endless": (ENDLESS, "sent (a message of more than 64 MB|something that is no message) and was killed"),
    "endless replies": (ENDLESS.replace("raw()", "raw(1)"), "sent a message of more than 6 MB and was killed"),
    "a large frame": (TOOLS + "raw().sendall(bytes([2]) + struct.pack('>Q', 2**40))", "more than 64 MB"),
    "many parts": (TOOLS + "raw().sendall(frame(b'', more=True) * 10_000)", "a message of more than 4,096 parts"),
    "noise": (TOOLS + "raw().sendall(b'\\xff' * 1000)", "sent something that is no message"),
    "closed": (
        TOOLS + "for port in (1, 2): raw(port).shutdown(socket.SHUT_RDWR)\nimport time; time.sleep(60)",
        "closed its connection and was killed",
    ),
}
"""What ends the connection, and what is told of it."""
FLOODS: Final = {
    "1 GB of output": "for _ in range(1000): print('x' * 1_000_000)",
    "a million messages": "for n in range(1_000_000): print(n, flush=True)",
    "unsigned messages": TOOLS + "end, some = raw(), frame(b'x') * 30_000\nwhile True: end.sendall(some)",
    "large messages": TOOLS
    + """
end, some = raw(), {"data": {"text/html": "x" * 30_000_000}, "metadata": {}}
while True: end.sendall(message("display_data", some))
""",
    "heavy messages": TOOLS
    + """
end, some = raw(), message("display_data", {"data": {"application/json": [[]] * 2_000_000}, "metadata": {}})
while True: end.sendall(some)
""",
    "large displays": "from IPython.display import display, HTML\nwhile True: display(HTML('x' * 5_000_000))",
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "memory bomb": "some = []\nwhile True: some.append(bytearray(10**8))",
    "endless message": ENDLESS,
}
"""What is meant to keep the controller, or the machine, from serving others."""
