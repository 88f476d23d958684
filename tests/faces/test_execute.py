"""Where the code of `nbagent exec` comes from."""

from __future__ import annotations

import io

import pytest

from nbagent.core.errors import UsageError
from nbagent.faces.cli.execute import sources
from nbagent.notebook.run import MAX_SOURCE, Source


class _Stdin:
    """Standard input as `sys.stdin` has it."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_code_is_taken_as_it_is() -> None:
    """One cell, that may not fail, even an empty one."""
    assert sources(None, "1 +\t1\n") == [Source("1 +\t1\n")]
    assert sources(None, "") == [Source("")]


def test_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` means standard input, up to a bound."""
    monkeypatch.setattr("sys.stdin", _Stdin(b"1\n2\n"))
    assert sources("-", None) == [Source("1\n2\n")]
    monkeypatch.setattr("sys.stdin", _Stdin(b"#" * (MAX_SOURCE + 1)))
    with pytest.raises(UsageError, match="20 MB"):
        sources("-", None)


@pytest.mark.parametrize("given", [(None, None), ("x.py", "1")])
def test_one_thing_is_run(given: tuple[str | None, str | None]) -> None:
    """Neither nothing nor two things."""
    with pytest.raises(UsageError, match="Name one thing to run"):
        sources(*given)
