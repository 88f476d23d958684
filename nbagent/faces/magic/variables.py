"""Variables on their way between a notebook and its sandbox, without pickle: Arrow for tables, `.npy` for arrays.

A value goes as sealed memory. `pack` writes it and says which code reads it there; `unpack` reads here what the sandbox
wrote (`kernel/inside/variables_inside.py`), and takes it for what it is: a file that code under suspicion has written.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from nbagent.core.errors import DataError
from nbagent.core.text import cut, one_line, size_of, visible
from nbagent.faces.magic import plain
from nbagent.faces.magic.arrow_file import check_file
from nbagent.kernel.inside.variables_inside import UNNAMED, UnfitError, pandas_table, reason
from nbagent.sandbox.channels.byte_stream import SealedMemory
from nbagent.sandbox.paths import VARIABLES

MAX_COLUMNS: Final = 12
"""Columns of a table that are named."""
MAX_LITERAL: Final = 4_000
"""Characters of plain data that goes as code."""


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """A variable on its way into the sandbox.

    Attributes:
        told: What it is in words, with its size and columns.
        code: What makes it there.
        file: The name of the file that the code reads from `VARIABLES`.
        memory: What that file has, until `close`; None if the code is all.
    """

    name: str
    told: str
    code: str
    file: str = ""
    memory: SealedMemory | None = None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.memory.size if self.memory is not None else 0

    def close(self) -> None:
        """Let go of the memory."""
        if self.memory is not None:
            self.memory.close()


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A type of value that can go over.

    Attributes:
        name: The type, with the top module that it comes from: `polars.DataFrame`.
        suffix: Of its file.
        code: What reads the file inside, with places for `path` and `name`.
        write: Writes a value into a file here.
        read: Reads a value from a file here that the sandbox wrote.
    """

    name: str
    suffix: str
    code: str
    write: Callable[[Any, Path], None]
    read: Callable[[Path], Any]


def pack(name: str, value: Any) -> Packed:
    """Write a variable for the sandbox; what it returns must be closed."""
    kind = KINDS.get(kind_of(value))
    if kind is None:
        return _pack_plain(name, value)
    try:
        memory = _memory(lambda path: kind.write(value, path))
    except ImportError as error:
        raise DataError(
            f"{name} is a {kind.name}, which needs {error.name} here to go into the sandbox.",
            mend=f"%pip install {error.name}",
        ) from error
    except Exception as error:  # whatever a library says of what it can't write
        raise DataError(
            f"{name} can't go into the sandbox: {cut(visible(reason(error)), 300).rstrip('.')}.",
            mend=""
            if isinstance(error, UnfitError)
            else "Leave out columns of mixed or other objects, or make them text.",
        ) from error
    file, code = f"{name}{kind.suffix}", kind.code
    if kind.name == "polars.DataFrame" and _mapped_polars(memory.path, value.schema) is not None:
        code = _POLARS_MAPPED
    told = f"{name}: {table_told(value)}, {size_of(memory.size)}"
    code = f"# {one_line(told)}\n{code.format(name=name, path=f'{VARIABLES}/{file}')}"
    return Packed(name=name, told=told, code=code, file=file, memory=memory)


def _pack_plain(name: str, value: Any) -> Packed:
    said, imports = plain.told(value), []
    if is_literal := plain.is_literal(value):
        text = value if isinstance(value, str) else repr(value)
    else:
        try:
            text = plain.expression(value)
        except TypeError as error:
            has = "is" if str(error) == f"{type(value).__module__}.{type(value).__qualname__}" else "has in it"
            raise DataError(
                f"{name} {has} a {error}, which can't go into the sandbox.",
                mend="Give a Polars, pandas or Arrow table, a NumPy array, text or plain data.",
            ) from None
        imports = [each for each in ("datetime", "decimal", "zoneinfo") if f"{each}." in text]
    if len(text) <= MAX_LITERAL:
        code = f"{name} = {repr(value) if is_literal else text}"
        file, memory = "", None
    else:
        file, memory = f"{name}.txt", _memory(lambda path: path.write_bytes(text.encode("utf-8", "surrogatepass")))
        reading = f'pathlib.Path("{VARIABLES}/{file}").read_bytes().decode("utf-8", "surrogatepass")'
        reader = "" if isinstance(value, str) else "ast.literal_eval" if is_literal else "eval"
        imports += ["ast", "pathlib"] if reader.startswith("ast") else ["pathlib"]
        code = f"{name} = {reader}({reading})" if reader else f"{name} = {reading}"
    code = "".join(f"import {each}\n" for each in sorted(imports)) + ("\n" if imports else "") + code
    return Packed(name=name, told=f"{name}: {said}", code=code, file=file, memory=memory)


def _memory(write: Callable[[Path], object]) -> SealedMemory:
    """Sealed memory with what is written to its path."""
    memory = SealedMemory()
    try:
        write(memory.path)
        memory.seal()
    except BaseException:
        memory.close()
        raise
    return memory


def size_here(value: Any) -> int:
    """Bytes of a table or an array in memory, as its library says; 0 of other things."""
    for name in ("nbytes", "estimated_size", "memory_usage"):
        if (found := getattr(value, name, None)) is not None and kind_of(value):
            found = found() if callable(found) else found
            return int(found.sum() if hasattr(found, "sum") else found)
    return 0


def unpack(kind: str, path: Path) -> Any:
    """Read a variable that the sandbox wrote and says to be of a kind.

    Nobody may change the file any more: tables are mapped into memory. It may be removed.
    """
    if kind in ("text", "data"):
        return plain.read(path, is_text=kind == "text")
    if kind not in KINDS:
        raise DataError(
            f"A {visible(kind)[:80]} can't come back.", mend="Have it made a table, an array or plain data."
        )
    try:
        return KINDS[kind].read(path)
    except ImportError as error:
        raise DataError(f"A {kind} needs {error.name} here to come back.", mend=f"%pip install {error.name}") from error
    except Exception as error:  # whatever a library says of a file that isn't what it claims to be
        raise DataError(
            f"What came back is no {kind}: {cut(visible(reason(error)), 300).rstrip('.')}.",
            mend="Have it made anew, of plain columns.",
        ) from error


def kind_of(value: Any) -> str:
    """The type's name with its top module: `pandas.DataFrame`; of the nearest class that can go over."""
    for each in type(value).__mro__:
        name = f"{each.__module__.partition('.')[0]}.{each.__qualname__}"
        if name in KINDS:
            return name
    return ""


def table_told(value: Any) -> str:
    """What a table or an array is, in words, with its columns."""
    shape = " × ".join(f"{each:,}" for each in value.shape) or "one value"
    told = f"{kind_of(value)} {getattr(value, 'dtype', '')}".rstrip() + f", {shape}"
    names = [str(each) for each in getattr(value, "column_names", getattr(value, "columns", ()))]
    if names:
        more = f", and {len(names) - MAX_COLUMNS} more" if len(names) > MAX_COLUMNS else ""
        told += f" ({cut(visible(', '.join(names[:MAX_COLUMNS])), 400)}{more})"
    return told


# -- tables and arrays ----------------------------------------------------------------------------------------------


def _module(name: str) -> Any:
    from importlib import import_module

    return sys.modules.get(name) or import_module(name)


def _write_polars(value: Any, path: Path) -> None:
    (value.to_frame() if type(value).__name__ == "Series" else value).write_ipc(path)


def _read_polars(path: Path) -> Any:
    check_file(path)
    polars = _module("polars")
    # Older ones map a file into memory by default, and then believe whatever offsets it has.
    more = {"memory_map": False} if "memory_map" in inspect.signature(polars.read_ipc).parameters else {}
    try:
        frame = _mapped_polars(path, polars.read_ipc_schema(path))
        return polars.read_ipc(path, **more) if frame is None else frame
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(str(error)) from error  # Rust's, which is no `Exception`


def _mapped_polars(path: Path, schema: Any) -> Any:
    """A frame of Polars's of a checked file without a copy, as PyArrow has it; None where that has another schema."""
    with contextlib.suppress(Exception):  # no PyArrow, or a type that only Polars knows
        frame = _module("polars").from_arrow(_mapped(path))
        return frame if frame.schema == schema else None


def _write_arrow(table: Any, path: Path) -> None:
    ipc = _module("pyarrow.ipc")
    with ipc.new_file(str(path), table.schema) as writer:
        writer.write(table)


def _read_arrow(path: Path, *, writes_out: bool = False) -> Any:
    check_file(path, writes_out=writes_out)
    return _mapped(path)


def _read_batch(path: Path) -> Any:
    check_file(path)
    batch = _module("pyarrow.ipc").open_file(_module("pyarrow").memory_map(str(path))).get_batch(0)
    batch.validate(full=True)
    return batch


def _mapped(path: Path) -> Any:
    table = _module("pyarrow.ipc").open_file(_module("pyarrow").memory_map(str(path))).read_all()
    table.validate(full=True)
    return table


def _write_pandas(value: Any, path: Path) -> None:
    _write_arrow(pandas_table(value), path)


def _read_pandas(path: Path) -> Any:
    # What is not copied can't be assigned to.
    return _read_arrow(path, writes_out=True).to_pandas(split_blocks=True).copy()


def _read_series(path: Path) -> Any:
    series = _read_pandas(path).iloc[:, 0]
    return series.rename(None) if series.name == UNNAMED else series


def _write_array(value: Any, path: Path) -> None:
    numpy = _module("numpy")
    if type(value).__name__ == "MaskedArray":
        raise UnfitError("a masked array would lose its mask; send its filled data and its mask")
    with path.open("wb") as file:
        numpy.save(file, value, allow_pickle=False)


def _read_array(path: Path) -> Any:
    numpy = _module("numpy")
    with path.open("rb") as file:
        # Not `load`, which takes an archive, too, and unpacks it whenever it is looked at.
        array = numpy.lib.format.read_array(file, allow_pickle=False)
    if array.size > 8 * path.stat().st_size:
        raise ValueError("it claims more than it has")  # values without bytes
    return array


_POLARS = 'import polars as pl\n\n{name} = pl.read_ipc("{path}")'
_POLARS_MAPPED = (
    "import polars as pl\nimport pyarrow as pa\n\n"
    '{name} = pl.from_arrow(pa.ipc.open_file(pa.memory_map("{path}")).read_all())'
)
_ARROW = 'import pyarrow as pa\n\n{name} = pa.ipc.open_file(pa.memory_map("{path}")).read_all()'
_PANDAS = 'import pyarrow as pa\n\n{name} = pa.ipc.open_file(pa.memory_map("{path}")).read_all().to_pandas()'
_SERIES = _PANDAS + ".iloc[:, 0]\nif {name}.name == " + repr(UNNAMED) + ":\n    {name}.name = None"
KINDS: Final = {
    each.name: each
    for each in (
        Kind(name="polars.DataFrame", suffix=".arrow", code=_POLARS, write=_write_polars, read=_read_polars),
        Kind(
            name="polars.Series",
            suffix=".arrow",
            code=_POLARS + ".to_series()",
            write=_write_polars,
            read=lambda path: _read_polars(path).to_series(),
        ),
        Kind(name="pandas.DataFrame", suffix=".arrow", code=_PANDAS, write=_write_pandas, read=_read_pandas),
        Kind(name="pandas.Series", suffix=".arrow", code=_SERIES, write=_write_pandas, read=_read_series),
        Kind(name="pyarrow.Table", suffix=".arrow", code=_ARROW, write=_write_arrow, read=_read_arrow),
        Kind(
            name="pyarrow.RecordBatch",
            suffix=".arrow",
            code='import pyarrow as pa\n\n{name} = pa.ipc.open_file(pa.memory_map("{path}")).get_batch(0)',
            write=_write_arrow,
            read=_read_batch,
        ),
        Kind(
            name="numpy.ndarray",
            suffix=".npy",
            code='import numpy as np\n\n{name} = np.load("{path}")',
            write=_write_array,
            read=_read_array,
        ),
    )
}
"""The types that go over as files, by their names."""
