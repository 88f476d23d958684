"""What stands beside a token that differs with every run: a part of it, or a result."""

from __future__ import annotations

from hashlib import sha256

import machine
import pytest
from notebook.compare.shared import compared


@pytest.mark.parametrize(
    "told",
    ["/items/{}?page=3", '{{"key":"{}","n":3}}', "Bearer {};n=3", "{}/part-3.csv", "{}:3,{}:3", "<a id='{}'>3</a>",
     "s3://{}/3/report_2024.csv"],
)  # fmt: skip
def test_what_stands_beside_an_id_without_a_space_is_no_part_of_it(told: str) -> None:
    """In addresses, in JSON and in paths; an id goes over signs that it may have itself, and bytes over all."""
    code = "import secrets\nprint(secrets.token_urlsafe())"
    one, two, three = (told.format(*[each] * 3) for each in ("xY-cd_e", "9bc-d-e", "k_Cdefg"))
    assert compared(one, two, three, code=code).differences == []
    for old in ("3", "part", "report_2024", "page"):
        if old in one:
            assert compared(one.replace(old, "4"), two, three, code=code).differences, old
    one, two, three = (f"b'{each}'" for each in (r"\x8f?&=3\x77", r"\x33&?\x12", r"\x9a=4\x12"))
    assert compared(one, two, three, code="os.urandom(8)").differences == []


@pytest.mark.parametrize(
    ("stored", "fresh", "again"),
    [
        (r"run \ALL-PASSED", "run 7f3a9c21", "run 8e4b0d32"), (r"run x\FAILED", "run 7f3a9c21", "run 8e4b0d32"),
        ("id done", "id x7z done", "id k2q done"),
        ("drew model3\nbest model3", "drew model7\nbest model7", "drew model5\nbest model7"),
    ],
)  # fmt: skip
def test_what_only_looks_like_an_id_is_none(stored: str, fresh: str, again: str) -> None:
    """A word with a backslash where fresh runs have no bytes, and one in whose place fresh runs have the same."""
    code = "import uuid\nprint(uuid.uuid4())"
    assert compared(stored, fresh, again, code=code).differences
    assert compared(again, fresh, again, code=code).differences == []


def test_a_line_of_many_ids_takes_no_time() -> None:
    """Each went through the whole line."""
    made = [[sha256(f"{run} {number}".encode()).hexdigest()[:10] for number in range(4_000)] for run in range(3)]
    runs = ["-".join(f"a{each}" for each in ids) for ids in made]
    assert machine.within(60, lambda: compared(*runs, code="import uuid\nprint(uuid.uuid4())")).differences == []
