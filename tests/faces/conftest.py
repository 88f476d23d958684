"""Fixtures of the commands' tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import TABLE, call, replies

READ = "import polars as pl\ndf = pl.read_csv('/tmp/data/table.csv')\ndf.height"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a small table, and recorded replies that look at it."""
    (tmp_path / "table.csv").write_text(TABLE)
    replies(tmp_path / "r.jsonl", call(READ, say="Let me look."), call("df['bill'].max()"), "48.9 mm.")
    return tmp_path
