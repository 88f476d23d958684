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

UNNAMED = "__nbagent_unnamed__"
DEPTH = 60


def main(name: str, folder: str, address: str) -> dict[str, Any]:
    """Write the variable of that name into a socket, or into a file of a folder where there is no socket.

    Returns:
        Its `kind`, and the `path` of the file if it is one; or why the variable can't be had as `missing`.
    """
    from IPython import get_ipython

    path = "" if address else os.path.join(folder, name)
    with contextlib.ExitStack() as stack:
        if address:
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(address)
            file = stack.enter_context(os.fdopen(os.dup(connection.fileno()), "wb"))
        namespace = get_ipython().user_ns
        if name not in namespace:
            return {"missing": "there is no such variable"}
        try:
            if path:
                os.makedirs(folder, exist_ok=True)
                file = stack.enter_context(open(path, "wb"))
            return {"kind": write(namespace[name], file), "path": path}
        except Exception as error:
            return {"missing": f"{type(error).__name__}: {error}"[:500]}


def write(value: Any, file: Any) -> str:
    """Write a value into a binary file; returns what it is."""
    module, name = type(value).__module__.partition(".")[0], type(value).__name__
    if module == "polars" and name == "LazyFrame":
        value, name = value.collect(), "DataFrame"
    if module == "polars" and name in ("DataFrame", "Series"):
        polars_file(value.to_frame() if name == "Series" else value, file)
        return f"polars.{name}"
    if module == "pandas" and name in ("DataFrame", "Series"):
        import pyarrow

        if name == "Series":
            value = value.to_frame(name=UNNAMED if value.name is None else value.name)
        arrow(pyarrow.Table.from_pandas(value), file)
        return f"pandas.{name}"
    if module == "pyarrow" and name == "Table":
        arrow(value, file)
        return "pyarrow.Table"
    if module == "numpy" and hasattr(value, "dtype") and name != "MaskedArray":
        import numpy

        if not hasattr(value, "__len__") and getattr(value, "shape", None) == ():
            return write(value.item(), file)
        # Not the file itself: of that, NumPy asks its position, which a socket has not.
        numpy.save(Writer(file), value, allow_pickle=False)
        return "numpy.ndarray"
    text = type(value) is str
    with io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="") as words:
        words.write(value) if text else json.dump(plain(value, DEPTH), words, allow_nan=False)
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


def arrow(table: Any, file: Any) -> None:
    """Write a table of Arrow's."""
    from pyarrow import ipc

    with ipc.new_file(file, table.schema) as writer:
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
