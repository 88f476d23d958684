"""Writes a variable of the kernel out, inside the sandbox: `transfer/variable.py` sends this source there.

It never pickles: a table goes as Arrow, an array as `.npy`, plain data as JSON. Never imported on the host.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import socket
from typing import Any

DESCRIPTOR, BYTES = b"d", b"b"
"""What is answered when memory is lent: that it is filled, or that it has not come and bytes follow."""
UNNAMED = "__nbagent_unnamed__"
DEPTH = 60


def main(name: str, folder: str, address: str) -> dict[str, Any]:
    """Write the variable of that name into memory that is lent over a socket, or into a file where there is no socket.

    Returns:
        Its `kind`, and the `path` of the file if it is one; or why the variable can't be had as `missing`.
    """
    from IPython import get_ipython

    namespace, path = get_ipython().user_ns, os.path.join(folder, name)
    with socket.socket(socket.AF_UNIX) as connection:
        if address:
            connection.connect(address)
        if name not in namespace:
            return {"missing": "there is no such variable"}
        try:
            if address:
                return {"kind": write(namespace[name], lambda size: lent(connection, size)), "path": ""}
            os.makedirs(folder, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            return {"kind": write(namespace[name], lambda _: os.fdopen(file, "wb")), "path": path}
        except Exception as error:
            return {"missing": f"{type(error).__name__}: {error}"[:500]}


@contextlib.contextmanager
def lent(connection: socket.socket, size: int) -> Any:
    """A file in memory that is lent over a socket, with room for about so many bytes; or of the socket itself."""
    connection.sendall(size.to_bytes(8, "big"))
    _, found, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if not found:
        connection.sendall(BYTES)
        with os.fdopen(os.dup(connection.fileno()), "wb") as file:
            yield file
        return
    with os.fdopen(found[0], "wb") as file:
        yield file
        file.truncate()
    connection.sendall(DESCRIPTOR)


def write(value: Any, opened: Any) -> str:
    """Write a value into the binary file that is opened for about so many bytes; returns what it is."""
    module, name = type(value).__module__.partition(".")[0], type(value).__name__
    if module == "polars" and name == "LazyFrame":
        value, name = value.collect(), "DataFrame"
    if module == "polars" and name in ("DataFrame", "Series"):
        with opened(value.estimated_size()) as file:
            polars_file(value.to_frame() if name == "Series" else value, file)
        return f"polars.{name}"
    if module == "pandas" and name in ("DataFrame", "Series"):
        import pyarrow

        if name == "Series":
            value = value.to_frame(name=UNNAMED if value.name is None else value.name)
        arrow(pyarrow.Table.from_pandas(value), opened)
        return f"pandas.{name}"
    if module == "pyarrow" and name == "Table":
        arrow(value, opened)
        return "pyarrow.Table"
    if module == "numpy" and hasattr(value, "dtype") and name != "MaskedArray":
        import numpy

        if not hasattr(value, "__len__") and getattr(value, "shape", None) == ():
            return write(value.item(), opened)
        # Not the file itself: of that, NumPy asks its position, which a socket has not.
        with opened(value.nbytes) as file:
            numpy.save(Writer(file), value, allow_pickle=False)
        return "numpy.ndarray"
    text = type(value) is str
    said = value if text else plain(value, DEPTH)
    with opened(0) as file:
        words = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
        words.write(said) if text else json.dump(said, words, allow_nan=False)
        words.detach()
    return "text" if text else "data"


class Writer:
    """A file that can be written to, and nothing else."""

    def __init__(self, file: Any) -> None:
        self.write = file.write


def polars_file(frame: Any, file: Any) -> None:
    """Write a frame of Polars's without views, of which one text can stand in many places: the host refuses them."""
    import polars

    try:
        frame.write_ipc(file, compat_level=polars.CompatLevel.oldest())
    except (AttributeError, TypeError):  # before Polars 1.0, which has no views
        frame.write_ipc(file)


def arrow(table: Any, opened: Any) -> None:
    """Write a table of Arrow's."""
    from pyarrow import ipc

    with opened(table.nbytes) as file, ipc.new_file(file, table.schema) as writer:
        writer.write(table)


def plain(value: Any, depth: int) -> Any:
    """Plain data as JSON can say it, with a list's kind as its first item."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is bytes:
        return ["b", value.hex()]
    if depth and type(value) is dict:
        return ["d", *([plain(key, depth - 1), plain(each, depth - 1)] for key, each in value.items())]
    for kind, tag in ((list, "l"), (tuple, "t"), (set, "s")):
        if depth and type(value) is kind:
            return [tag, *(plain(each, depth - 1) for each in value)]
    raise TypeError(f"a {type(value).__name__} is no table, array, text or plain data")
