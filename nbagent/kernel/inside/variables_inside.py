"""Writes a variable of the kernel out, inside the sandbox: `transfer/variable.py` sends this source there.

It never pickles: a table goes as Arrow, an array as `.npy`, plain data as JSON. `%agent` makes tables of pandas and
plain data with the same functions, of what it sends there.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import json
import math
import os
import socket
import sys
import warnings
from typing import Any

DESCRIPTOR, BYTES = b"d", b"b"
"""What is answered when memory is lent: that it is filled, or that it has not come and bytes follow."""
UNNAMED = "__nbagent_unnamed__"
DEPTH = 60


class UnfitError(TypeError):
    """A value that can't go over, as a sentence that says what can."""


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
            return {"missing": reason(error)[:500]}


def reason(error: Exception) -> str:
    """What an error says; PyArrow's say of which column it is in the end."""
    return ". ".join(map(str, reversed(error.args))) or type(error).__name__


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
        arrow(pandas_table(value), opened)
        return f"pandas.{name}"
    if module == "pyarrow" and name in ("Table", "RecordBatch"):
        arrow(value, opened)
        return f"pyarrow.{name}"
    if module == "numpy" and name == "ndarray":
        import numpy

        # Not the file itself: of that, NumPy asks its position, which a socket has not.
        with opened(value.nbytes) as file:
            numpy.save(Writer(file), value, allow_pickle=False)
        return "numpy.ndarray"
    value = scalar(value)
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


def pandas_table(value: Any) -> Any:
    """A table of Arrow's of a frame or a series of pandas.

    Arrow can't read again what `pandas.cut` makes, categories that are intervals: they go as intervals. And it takes
    names of columns for others unless they are text, numbers or times: they go as text, and categories as what they
    stand for.
    """
    import pandas  # type: ignore[import-untyped]
    import pyarrow

    if isinstance(value, pandas.Series):
        frame = value.to_frame(name=UNNAMED if value.name is None else value.name)
    else:
        frame = value.copy(deep=False)
    if not frame.columns.is_unique:
        raise UnfitError("several of its columns have the same name; give each one of its own")
    frame.index = leveled(frame.index, lambda level: whole(level) if is_cut(level.dtype) else level)
    frame.columns = leveled(frame.columns, lambda level: whole(level) if hasattr(level, "categories") else level)
    for name, kind in list(frame.dtypes.items()):
        if is_cut(kind):
            frame[name] = pandas.Series(whole(frame[name]), index=frame.index)
    if not keeps_names(frame):
        frame.columns = leveled(frame.columns, lambda level: level.map(str))
    return pyarrow.Table.from_pandas(frame)


def leveled(labels: Any, change: Any) -> Any:
    """An index of pandas, changed; of one with several levels, each level."""
    if labels.nlevels == 1:
        return change(labels)
    return labels.set_levels([change(level) for level in labels.levels])


def is_cut(kind: Any) -> bool:
    """Whether a type of pandas is categories that are intervals."""
    return getattr(getattr(getattr(kind, "categories", None), "dtype", None), "name", "").startswith("interval")


def whole(values: Any) -> Any:
    """Categories of pandas as the values that they stand for."""
    import pandas

    kind = values.dtype.categories.dtype
    if is_cut(values.dtype):  # of which those of whole numbers have none that is missing
        made = pandas.arrays.IntervalArray(values.astype(object), closed=kind.closed)
    else:
        made = values.astype(kind)
    return pandas.Index(made, name=values.name) if isinstance(values, pandas.Index) else made


def keeps_names(frame: Any) -> bool:
    """Whether the names of a frame's columns are the same after Arrow has had them."""
    import pyarrow

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = pyarrow.Table.from_pandas(frame.iloc[:0]).to_pandas().columns
        except Exception:
            return False
    return bool(found.equals(frame.columns))


def scalar(value: Any) -> Any:
    """A number, a text or a time of NumPy's or pandas's as Python's own; other values as they are."""
    numpy, kind = sys.modules.get("numpy"), type(value).__name__
    if numpy is not None and isinstance(value, numpy.generic):
        # As nanoseconds, it would become a number.
        return value.astype(f"{value.dtype.kind}8[us]").item() if value.dtype.kind in "mM" else value.item()
    if type(value).__module__.partition(".")[0] == "pandas" and kind in ("Timestamp", "Timedelta", "NaTType", "NAType"):
        return (
            value.to_pydatetime(warn=False) if kind == "Timestamp" else getattr(value, "to_pytimedelta", lambda: None)()
        )
    return value


def plain(value: Any, depth: int) -> Any:
    """Plain data as JSON can say it, with a list's kind as its first item."""
    value = scalar(value)
    if value is None or type(value) in (bool, int, str):
        return value
    kind = type(value).__name__
    if isinstance(value, float):
        return value if math.isfinite(value) else ["float", str(value)]
    if isinstance(value, bytes):
        return ["b", value.hex()]
    if isinstance(value, (datetime.date, datetime.time)):
        return [kind, value.isoformat()]
    if isinstance(value, datetime.timedelta):
        return [kind, value.days, value.seconds, value.microseconds]
    if isinstance(value, decimal.Decimal):
        return [kind, str(value)]
    if depth and type(value) is dict:
        return ["d", *([plain(key, depth - 1), plain(each, depth - 1)] for key, each in value.items())]
    if depth and type(value) in (list, tuple, set):
        return [kind[0], *(plain(each, depth - 1) for each in value)]
    raise UnfitError(f"it is, or has in it, a value of the type {kind}, which is no table, array, text or plain data")
