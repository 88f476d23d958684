"""Writes a variable of the kernel into a file, inside the sandbox: `variables.py` sends this source there.

It never pickles: a table goes as Arrow, an array as `.npy`, plain data as JSON. Never imported on the host.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

UNNAMED = "__nbagent_unnamed__"
DEPTH = 60


def main(name: str, folder: str) -> dict[str, Any]:
    """Write the variable of that name; returns its `kind` and `path`, or why it can't be had as `missing`."""
    from IPython import get_ipython

    namespace = get_ipython().user_ns
    if name not in namespace:
        return {"missing": "there is no such variable"}
    os.makedirs(folder, exist_ok=True)
    try:
        kind, path = write(namespace[name], os.path.join(folder, name))
    except Exception as error:
        return {"missing": f"{type(error).__name__}: {error}"[:500]}
    return {"kind": kind, "path": path, "size": os.stat(path).st_size}


def write(value: Any, stem: str) -> tuple[str, str]:
    """Write a value; returns what it is and the file's path."""
    module, name = type(value).__module__.partition(".")[0], type(value).__name__
    if module == "polars" and name == "LazyFrame":
        value, name = value.collect(), "DataFrame"
    if module == "polars" and name in ("DataFrame", "Series"):
        return f"polars.{name}", polars_file(value.to_frame() if name == "Series" else value, f"{stem}.arrow")
    if module == "pandas" and name in ("DataFrame", "Series"):
        import pyarrow

        if name == "Series":
            value = value.to_frame(name=UNNAMED if value.name is None else value.name)
        return f"pandas.{name}", arrow(pyarrow.Table.from_pandas(value), stem)
    if module == "pyarrow" and name == "Table":
        return "pyarrow.Table", arrow(value, stem)
    if module == "numpy" and hasattr(value, "dtype") and name != "MaskedArray":
        import numpy

        if not hasattr(value, "__len__") and getattr(value, "shape", None) == ():
            return write(value.item(), stem)
        numpy.save(f"{stem}.npy", value, allow_pickle=False)
        return "numpy.ndarray", f"{stem}.npy"
    text = type(value) is str
    with open(f"{stem}.txt", "w", encoding="utf-8", errors="replace", newline="") as file:
        file.write(value) if text else json.dump(plain(value, DEPTH), file, allow_nan=False)
    return ("text" if text else "data"), f"{stem}.txt"


def polars_file(frame: Any, path: str) -> str:
    """Write a frame of Polars's without views, of which one text can stand in many places: the host refuses them."""
    import polars

    try:
        frame.write_ipc(path, compat_level=polars.CompatLevel.oldest())
    except (AttributeError, TypeError):  # before Polars 1.0, which has no views
        frame.write_ipc(path)
    return path


def arrow(table: Any, stem: str) -> str:
    """Write a table of Arrow's."""
    from pyarrow import ipc

    with ipc.new_file(f"{stem}.arrow", table.schema) as writer:
        writer.write(table)
    return f"{stem}.arrow"


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
