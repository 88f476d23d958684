"""Profiles of files as the tests make them, and what a model is told of these."""

from __future__ import annotations

import base64
from array import array
from zlib import crc32

from nbagent.agent.dataset.section import DataView
from nbagent.kernel.describe import Profiles
from nbagent.kernel.profile import Column, FileProfile, Sketch, Table

SALES = FileProfile(
    "/tmp/data/sales.csv",
    kind="CSV",
    size=40_000,
    tables=[
        Table(
            rows=1200,
            width=3,
            columns=[
                Column("region", dtype="String", values={"North": 700, "Süd": 499, "süd": 1}, empty=2),
                Column("amount [kEUR]", dtype="Float64", low=-1.5, high=22, missing={"n/a": 3}, unit="kEUR"),
                Column("day", dtype="String", form="%d.%m.%Y", distinct=365, sample=["01.02.2026"], others={"?!": 2}),
            ],
            call="pl.read_csv('/tmp/data/sales.csv', separator=';', null_values=['n/a'])",
        )
    ],
)


def table(
    path: str, *columns: str, values: dict[str, int] | None = None, call: str = "", size: int = 100
) -> FileProfile:
    """A CSV file."""
    named = [Column(each, dtype="String", values=values or {}, distinct=3, sample=["a"]) for each in columns]
    return FileProfile(path, kind="CSV", size=size, tables=[Table(rows=10, width=len(named), columns=named, call=call)])


def sketch(values: list[str]) -> Sketch:
    """What a profile has of a column's values."""
    return Sketch(hashes=base64.b64encode(array("I", sorted({crc32(each.encode()) for each in values}))).decode())


def section(files: list[FileProfile], question: str = "") -> str:
    return DataView(Profiles(files)).section(question)
