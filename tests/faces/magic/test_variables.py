"""Variables go over and come back as what they were; what hostile code writes is one sentence."""

from __future__ import annotations

import contextlib
import datetime
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars as pl
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbagent.core.errors import DataError
from nbagent.faces.magic.variables import KINDS, MAX_LITERAL, pack, unpack
from nbagent.kernel.inside import variables_inside
from nbagent.sandbox.paths import VARIABLES

PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(),
        st.binary(),
        st.dates(),
        st.datetimes(timezones=st.none() | st.just(datetime.UTC)),
        st.times(),
        st.timedeltas(),
        st.decimals(allow_nan=False, places=3),
        st.just(set()),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def there(value: Any, folder: Path, name: str = "value") -> Any:
    """The value as the sandbox has it: what the code makes, with the files where it looks for them."""
    packed = pack(name, value)
    if packed.memory is not None:
        (folder / packed.file).write_bytes(packed.memory.path.read_bytes())
        packed.close()
    namespace: dict[str, Any] = {}
    exec(packed.code.replace(VARIABLES, str(folder)), namespace)  # noqa: S102 - nbagent's own
    return namespace[name]


def back(value: Any, folder: Path) -> Any:
    """The value as it comes back from the sandbox."""
    path = folder / "back"
    with path.open("wb") as file:
        kind = variables_inside.write(value, lambda _: contextlib.nullcontext(file))
    return unpack(kind, path)


@settings(max_examples=100, deadline=None)
@given(PLAIN)
def test_plain_data_goes_and_comes_back_as_it_is(value: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = there(value, Path(folder))
        assert (found, type(found)) == (value, type(value))
        found = back(value, Path(folder))
        assert type(found) is type(value)
        assert found == value


def test_long_text_goes_as_a_file(tmp_path: Path) -> None:
    for value in ("x\r\n\udc80" * MAX_LITERAL, list(range(MAX_LITERAL)), [datetime.date(2026, 1, 1)] * MAX_LITERAL):
        packed = pack("value", value)
        assert packed.memory is not None
        packed.close()
        assert len(packed.code) < 300
        assert there(value, tmp_path) == value


FRAMES = {
    "plain": pl.DataFrame({"a": [1, None, 3], "b": ["x", "ä", None], "c": [datetime.date(2026, 1, 1)] * 3}),
    "empty": pl.DataFrame(),
    "nested": pl.DataFrame({"n": [[1, 2], [], None], "s": [{"x": 1}] * 3}),
    "categorical": pl.DataFrame({"k": pl.Series("k", ["a", "b", "a"], pl.Categorical)}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_polars_frame_is_the_same_there_and_back(name: str, tmp_path: Path) -> None:
    frame = FRAMES[name]
    assert there(frame, tmp_path).equals(frame)
    found = back(frame, tmp_path)
    assert found.equals(frame)
    assert found.schema == frame.schema


def test_a_table_of_pandas_or_arrow_is_the_same_there_and_back(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None], "c": pandas.Categorical(["u", "v"])}, index=["i", "j"])
    pandas.testing.assert_frame_equal(there(frame, tmp_path), frame)
    pandas.testing.assert_frame_equal(back(frame, tmp_path), frame)
    for series in (frame["a"], pandas.Series([1.5, 2.5])):
        pandas.testing.assert_series_equal(there(series, tmp_path), series)
        pandas.testing.assert_series_equal(back(series, tmp_path), series)
    table = pyarrow.table({"a": [1, None], "b": [["x"], []]})
    assert there(table, tmp_path).equals(table)
    assert back(table, tmp_path).equals(table)


SCALARS: dict[str, tuple[Any, Any]] = {
    "mean": (np.float64(1.5), 1.5),
    "within": ({"n": np.int64(3), "rate": np.float32(0.5), "on": np.True_}, {"n": 3, "rate": 0.5, "on": True}),
    "nanoseconds": (np.datetime64("2026-01-01T00:00", "ns"), datetime.datetime(2026, 1, 1)),
    "Timestamp": ([pandas.Timestamp("2026-01-01", tz="UTC")], [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]),
    "Timedelta": ({1: pandas.Timedelta(days=2)}, {1: datetime.timedelta(days=2)}),
    "missing": ([pandas.NaT, pandas.NA], [None, None]),
    "word": (np.str_("a"), "a"),
}


@pytest.mark.parametrize("name", SCALARS)
def test_a_single_number_or_time_of_a_library_goes_as_one_of_python(name: str, tmp_path: Path) -> None:
    value, expected = SCALARS[name]
    for found in (there(value, tmp_path), back(value, tmp_path)):
        assert (found, type(found)) == (expected, type(expected))


def test_what_is_no_number_stays_that(tmp_path: Path) -> None:
    for found in (there([float("nan")], tmp_path), back([np.nan], tmp_path)):
        assert np.isnan(found[0])


AGES = pandas.cut(pandas.Series([1.0, 20.0, 70.0, None], name="age"), [0, 30, 80])
REGIONS = pandas.Series(["n", "s", "n", "s"], name="region")
SUMMARIES: dict[str, tuple[Any, Any]] = {
    "cut": (AGES, AGES.astype(object)),
    "grouped": (REGIONS.groupby(AGES, observed=True).size(), [2, 1]),
    "counted": (pandas.crosstab(REGIONS, AGES), ["(0, 30]", "(30, 80]"]),
    "two values": (pandas.crosstab(REGIONS, AGES.isna()), ["False", "True"]),
    "pivot": (pandas.DataFrame([[1, 2]], columns=pandas.CategoricalIndex(["n", "s"], name="region")), ["n", "s"]),
    "months": (pandas.DataFrame([[1]], columns=pandas.period_range("2026-01", periods=1, freq="M")), ["2026-01"]),
    "levels": (pandas.DataFrame([[1]], columns=pandas.MultiIndex.from_arrays([AGES[:1], ["n"]])), [("(0, 30]", "n")]),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_of_pandas_go_over_though_arrow_does_not_read_their_labels_again(name: str, tmp_path: Path) -> None:
    """Intervals stay intervals, and names of columns become text: what `pandas.cut` and `crosstab` make, and pivots."""
    value, expected = SUMMARIES[name]
    for found in (there(value, tmp_path), back(value, tmp_path)):
        assert type(found) is type(value)
        if name == "cut":
            assert found.astype(object).equals(expected)
        elif name == "grouped":
            assert found.to_list() == expected
            assert found.loc[5] == 2
        else:
            assert list(found.columns) == expected
            assert found.columns.names == value.columns.names
            assert found.to_numpy().tolist() == value.to_numpy().tolist()


def test_a_batch_of_arrow_stays_one(tmp_path: Path) -> None:
    batch = pyarrow.record_batch({"a": [1, None]})
    assert there(batch, tmp_path).equals(batch)
    assert back(batch, tmp_path).equals(batch)


@pytest.mark.parametrize(
    "content", ['["x"]', '["b"]', '["timedelta", 1e300]', '["Decimal", "1e999999999"]', '["date", 5]']
)
def test_data_that_is_none_is_one_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(content)
    with pytest.raises(DataError, match="no plain data"):
        unpack("data", tmp_path / "a")


def test_a_series_stays_one(tmp_path: Path) -> None:
    series = pl.Series("s", [1.5, None])
    assert there(series, tmp_path).equals(series)
    assert back(series, tmp_path).equals(series)
    assert back(pl.LazyFrame({"a": [1]}), tmp_path).equals(pl.DataFrame({"a": [1]}))


ARRAYS = {
    "table": np.arange(6).reshape(2, 3),
    "words": np.array(["a", "b"]),
    "empty": np.zeros((0, 2)),
    "single": np.array(3.5),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_the_same_there_and_back(name: str, tmp_path: Path) -> None:
    array: np.ndarray[Any, Any] = ARRAYS[name]
    found = there(array, tmp_path)
    assert (found == array).all()
    assert found.dtype == array.dtype
    assert np.array_equal(np.asarray(back(array, tmp_path)), array)


OTHERS: dict[str, tuple[Any, str]] = {
    "object": (object(), "object, which can't go"),
    "array of objects": (np.array([object()], dtype=object), "can't go into the sandbox"),
    "masked array": (np.ma.array([1, 2], mask=[True, False]), "mask"),
    "object within": ({"a": [object()]}, "value has in it a builtins.object, which can't go"),
    "timezone": (datetime.UTC, "timezone"),
    "names of columns": (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "give each one of its own"),
    "mixed column": (pandas.DataFrame({"a": [1, "x"]}), "Conversion failed for column a"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_can_not_go_over_is_told(name: str) -> None:
    value, told = OTHERS[name]
    with pytest.raises(DataError, match=told) as raised:
        pack("value", value)
    assert ". " in str(raised.value) or "; " in str(raised.value), "how it is mended, too"


def test_what_goes_over_is_told_with_its_columns_and_size() -> None:
    frame = pl.DataFrame({f"c{number}": [1] for number in range(20)})
    assert "polars.DataFrame, 1 × 20 (c0, c1" in (told := pack("df", frame).told)
    assert "and 8 more" in told
    assert told.endswith("KB")
    assert pack("n", [1, 2]).told == "n: list of 2 items"
    assert "numpy.ndarray float64, one value, " in pack("n", np.array(1.5)).told


@pytest.mark.parametrize("kind", [*KINDS, "data", "__import__", ""])
@pytest.mark.parametrize(
    "content", [b"", b"ARROW1\0\0" + b"\xff" * 64, b"\x93NUMPY\x01\x00v\x00{'descr': '|O'}", b'["l", ' * 500]
)
def test_a_hostile_file_is_one_sentence(kind: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError):
        unpack(kind, path)


LONG = ["x" * 20, "y" * 30]
OLD: dict[str, Any] = {"compat_level": pl.CompatLevel.oldest()}
VIEW = struct.pack("<i4sii", 20, b"xxxx", 0, 0)
HOSTILE: dict[str, tuple[pl.Series, bytes, bytes, dict[str, Any]]] = {
    "lists": (pl.Series([[1, 2], [3]]), struct.pack("<3q", 0, 2, 3), struct.pack("<3q", 0, 2**40, 2**41), {}),
    "buffers of views": (pl.Series(LONG), VIEW, struct.pack("<i4sii", 20, b"xxxx", 7, 0), {}),
    "views": (pl.Series(LONG), VIEW, struct.pack("<i4sii", 20, b"xxxx", 0, 2**30), {}),
    "text": (pl.Series(LONG), struct.pack("<3q", 0, 20, 50), struct.pack("<3q", 0, 2**40, 2**41), OLD),
    "letters": (pl.Series(LONG), b"x" * 20, b"\xff" * 20, OLD),
    "categories": (pl.Series(["a", "b", "a"], dtype=pl.Categorical), struct.pack("<3I", 0, 1, 0), b"\x7f" * 12, {}),
}


@pytest.mark.parametrize("kind", ["polars.DataFrame", "pyarrow.Table", "pandas.DataFrame"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_table_that_leads_out_of_its_memory_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    """An offset that is believed reads what else the kernel holds, or ends it."""
    series, before, after, options = HOSTILE[name]
    pl.DataFrame({"a": series}).write_ipc(tmp_path / "a", **options)
    content = (tmp_path / "a").read_bytes()
    assert before in content
    (tmp_path / "a").write_bytes(content.replace(before, after))
    with pytest.raises(DataError):
        unpack(kind, tmp_path / "a")


@pytest.mark.parametrize("kind", ["polars.DataFrame", "pyarrow.Table"])
def test_a_small_file_is_no_large_table(kind: str, tmp_path: Path) -> None:
    """Neither by compression, nor by values that take no bytes, nor by a batch that is named many times."""
    zeros = pl.DataFrame({"a": np.zeros(1_000_000, dtype=np.uint8)})
    zeros.write_ipc(tmp_path / "packed", compression="zstd")
    nulls = pl.DataFrame({"a": [None] * 1000})
    nulls.write_ipc(tmp_path / "nulls")
    content = (tmp_path / "nulls").read_bytes()
    (tmp_path / "nulls").write_bytes(content.replace(struct.pack("<q", 1000), struct.pack("<q", 2**40)))
    for name, told in (("packed", "compressed"), ("nulls", "more than it has")):
        with pytest.raises(DataError, match=told):
            unpack(kind, tmp_path / name)


@pytest.mark.parametrize("kind", ["polars.DataFrame", "polars.Series", "pandas.DataFrame", "pyarrow.RecordBatch"])
def test_columns_share_no_bytes(kind: str, tmp_path: Path) -> None:
    """1.25 MB made 1.5 GB: each of 1,500 columns was the same value of a million bytes, and Polars copies each."""
    long, many = 100_000, 20
    table = pyarrow.table({"a": ["x" * long]} | {f"c{each}": ["abc"] for each in range(many)})
    with pyarrow.ipc.new_file(str(tmp_path / "a"), table.schema) as writer:
        writer.write(table)
    content = (tmp_path / "a").read_bytes()
    assert len(unpack("polars.DataFrame", tmp_path / "a").columns) == 1 + many
    # Where the bytes of a value are in the batch, and how many; then the places of the value in them.
    at = next(at for at in range(0, len(content), 8) if struct.unpack_from("<qq", content, at) == (8, long))
    shared = content[at : at + 16]
    for each in range(many):
        short = at + 48 * (each + 1)
        assert struct.unpack_from("<q", content, short + 8)[0] == 3
        content = content[:short] + shared + content[short + 16 :]
    head, body = content.split(b"x" * long)
    ends = [struct.pack("<2i", 0, each) for each in (3, long)]
    (tmp_path / "a").write_bytes(head + b"x" * long + body.replace(*ends, many))
    with pytest.raises(DataError, match="more than it has"):
        unpack(kind, tmp_path / "a")


NOTHING = pyarrow.array([], pyarrow.int8())
WEIGHTLESS: dict[str, Callable[[int], pyarrow.Array]] = {
    "nulls": pyarrow.nulls,
    "empty structs": lambda many: pyarrow.StructArray.from_buffers(pyarrow.struct([]), many, [None]),
    "structs of nulls": lambda many: pyarrow.StructArray.from_arrays([pyarrow.nulls(many)], ["f"]),
    "lists of no length": lambda many: pyarrow.Array.from_buffers(
        pyarrow.list_(pyarrow.int8(), 0), many, [None], children=[NOTHING]
    ),
    "bytes of no length": lambda many: pyarrow.Array.from_buffers(
        pyarrow.binary(0), many, [None, pyarrow.py_buffer(b"")]
    ),
}
"""Columns whose values take no bytes in a file, and each an object of Python's."""


@pytest.mark.parametrize("kind", ["pandas.DataFrame", "pandas.Series"])
@pytest.mark.parametrize("name", WEIGHTLESS)
def test_a_small_file_makes_no_large_frame(name: str, kind: str, tmp_path: Path) -> None:
    """578 bytes made 1.4 GB of lists: what pandas makes of values is bounded, too. A thousand of them come back."""
    for many in (1000, 8_000_000):
        table = pyarrow.table({"a": WEIGHTLESS[name](many)})
        with pyarrow.ipc.new_file(str(tmp_path / "a"), table.schema) as writer:
            writer.write(table)
        if many == 1000:
            assert len(unpack(kind, tmp_path / "a")) == many
            continue
        with pytest.raises(DataError, match="more than it has"):
            unpack(kind, tmp_path / "a")


EXTENSION = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": b"cos\nsystem\n"}
REPEATED = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 9, pyarrow.int8()), pyarrow.array(["y" * 99]))
LISTS = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 9, pyarrow.int8()), pyarrow.array([[1] * 99]))
ODD: dict[str, pyarrow.Array] = {
    "views": pyarrow.array(["x" * 99], pyarrow.string_view()),
    "a union": pyarrow.UnionArray.from_sparse(pyarrow.array([0], pyarrow.int8()), [pyarrow.array(["x"])]),
    "a run": pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([1], pyarrow.int32()), pyarrow.array(["x"])),
    "a dictionary of lists": LISTS,
    "the same in a struct": pyarrow.StructArray.from_arrays([LISTS], ["f"]),
    "a type that runs code": pyarrow.array([b"x"]),
}


@pytest.mark.parametrize("kind", ["polars.DataFrame", "pyarrow.Table", "pandas.DataFrame"])
@pytest.mark.parametrize("name", ODD)
def test_no_column_is_read_that_a_reader_writes_out_or_obeys(name: str, kind: str, tmp_path: Path) -> None:
    """Polars wrote 200,000 items that are one list of 100,000 numbers out: it asked for 160 GB, and aborted."""
    field = pyarrow.field("a", ODD[name].type, metadata=EXTENSION if name == "a type that runs code" else None)
    table = pyarrow.table([ODD[name]], schema=pyarrow.schema([field]))
    with pyarrow.ipc.new_file(str(tmp_path / "a"), table.schema) as writer:
        writer.write(table)
    with pytest.raises(DataError, match=r"of it (has|repeats)"):
        unpack(kind, tmp_path / "a")


def test_pandas_gets_no_dictionary_whose_texts_it_would_repeat(tmp_path: Path) -> None:
    table = pyarrow.table({"a": pyarrow.StructArray.from_arrays([REPEATED], ["f"])})
    with pyarrow.ipc.new_file(str(tmp_path / "a"), table.schema) as writer:
        writer.write(table)
    assert unpack("polars.DataFrame", tmp_path / "a").height == 9
    with pytest.raises(DataError, match="repeats"):
        unpack("pandas.DataFrame", tmp_path / "a")


TUPLES = f"({'(),' * 5_000})"
DESCRIBED: dict[str, dict[str, Any]] = {
    "a type for a slow pattern": {"columns": [{"name": "a", "numpy_type": "Sparse" * 20_000}]},
    "a column's name that is evaluated": {"columns": [{"name": TUPLES, "numpy_type": "int64"}]},
    "a field's name that is evaluated": {"columns": [{"name": "a", "field_name": TUPLES, "numpy_type": "int64"}]},
    "an index's type": {"column_indexes": [{"name": "a", "numpy_type": "period[" * 20_000}]},
    "too many values": {"index_columns": [[]] * 100_000},
    "no description": {"columns": 1},
}


@pytest.mark.parametrize("kind", ["pyarrow.Table", "pandas.DataFrame", "pandas.Series", "polars.DataFrame"])
@pytest.mark.parametrize("name", DESCRIBED)
def test_no_description_of_pandas_is_read_that_holds_its_reader_up(name: str, kind: str, tmp_path: Path) -> None:
    """120 KB of a type's name kept the person's kernel busy for minutes, 16 MB of a tuple took all of its memory."""
    known = {"index_columns": [], "column_indexes": [], "columns": []} | DESCRIBED[name]
    table = pyarrow.table({"a": [1]}).replace_schema_metadata({"pandas": json.dumps(known)})
    with pyarrow.ipc.new_file(str(tmp_path / "a"), table.schema) as writer:
        writer.write(table)
    with pytest.raises(DataError, match="what it says of itself"):
        unpack(kind, tmp_path / "a")


@pytest.mark.parametrize("kind", ["pyarrow.Table", "pandas.DataFrame", "polars.DataFrame"])
def test_neither_a_column_nor_its_type_says_much_of_itself(kind: str, tmp_path: Path) -> None:
    """Older PyArrow parses a tensor's shape by recursion: ten million brackets ended the person's kernel."""
    shape = {"ARROW:extension:name": "arrow.fixed_shape_tensor", "ARROW:extension:metadata": "[" * 10_000}
    for field in (
        pyarrow.field("a", pyarrow.list_(pyarrow.int32(), 1), metadata=shape),
        pyarrow.field(TUPLES, pyarrow.list_(pyarrow.int32(), 1)),
    ):
        table = pyarrow.Table.from_arrays([pyarrow.array([[1]], field.type)], schema=pyarrow.schema([field]))
        with pyarrow.ipc.new_file(str(tmp_path / "a"), table.schema) as writer:
            writer.write(table)
        with pytest.raises(DataError, match="what it says of itself"):
            unpack(kind, tmp_path / "a")


def repeating(levels: int) -> bytes:
    """A file whose column refers four times to one that refers four times to a third one, and so on, in FlatBuffers."""
    # A level has the places of its fields; a table, with what it refers to and its type, a struct; and a vector with
    # four references to the next level's table.
    level = struct.pack("<8H", 16, 12, 0, 4, 8, 0, 0, 4) + struct.pack("<iII5I", 16, 8, 13, 4, 32, 28, 24, 20)
    first = level[:20] + struct.pack("<I", 44) + level[24:]  # the file itself refers to its schema without a vector
    last = struct.pack("<8H", 16, 12, 0, 0, 8, 0, 0, 0) + struct.pack("<iII", 16, 0, 1)
    footer = struct.pack("<I", 20) + first + level * levels + last
    return b"ARROW1\0\0" + footer + struct.pack("<i", len(footer)) + b"ARROW1"


@pytest.mark.parametrize("kind", ["pyarrow.Table", "pandas.DataFrame", "polars.DataFrame"])
def test_columns_that_are_in_many_places_are_not_looked_at_in_each(kind: str, tmp_path: Path) -> None:
    """2 KB of them kept the person's kernel busy for ever."""
    (tmp_path / "a").write_bytes(repeating(40))
    with pytest.raises(DataError, match="what it says of itself is not like a table's"):
        unpack(kind, tmp_path / "a")


@pytest.mark.parametrize("name", ["index", "columns", "types", "many"])
def test_what_pandas_says_of_its_own_tables_is_read(name: str, tmp_path: Path) -> None:
    frames = {
        "index": pandas.DataFrame({"x": [1, 2]}, index=pandas.date_range("2026-01-01", periods=2, tz="Europe/Berlin")),
        "columns": pandas.DataFrame([[1, 2]], columns=pandas.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
        "types": pandas.DataFrame({"c": pandas.Categorical(["a", "b"]), "s": pandas.array([1, None], "Int64")}),
        "many": pandas.DataFrame(np.zeros((1, 5_000))).add_prefix("column "),
    }
    found = back(frames[name], tmp_path)
    pandas.testing.assert_frame_equal(found, frames[name], check_freq=False)


def test_an_array_is_no_archive_and_has_bytes_for_its_values(tmp_path: Path) -> None:
    """An archive would be unpacked in the person's own kernel, whenever it is looked at."""
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10))
    np.save(tmp_path / "b.npy", np.zeros(10**12, dtype="V0"))
    for name in ("a.npz", "b.npy"):
        with pytest.raises(DataError, match=r"no numpy\.ndarray"):
            unpack("numpy.ndarray", tmp_path / name)


@pytest.mark.parametrize("tag", ["d", "s"])
def test_keys_that_are_made_to_be_slow_are_refused(tag: str, tmp_path: Path) -> None:
    """A dict of 100,000 keys of one hash would keep the person's kernel busy for minutes."""
    keys = [(2**61 - 1) * each for each in range(2_000)]
    (tmp_path / "a").write_text(json.dumps([tag, *([key, 0] if tag == "d" else key for key in keys)]))
    with pytest.raises(DataError, match="slow"):
        unpack("data", tmp_path / "a")


def test_no_pickle_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="pickle"):
        unpack("numpy.ndarray", tmp_path / "evil.npy")
