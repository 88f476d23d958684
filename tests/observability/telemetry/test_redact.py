"""What may go into a log."""

from __future__ import annotations

import machine
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.observability.telemetry.logs import HIDDEN, brief, redact

SECRETS = [
    "sk-proj-abcDEF1234567890abcDEF",
    "sk-ant-api03-abcdefghijklmnop",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "glpat-abcdefghijklmnopqrst",
    "AKIAIOSFODNN7EXAMPLE",
    "hf_abcdefghijklmnopqrstuvwx",
    "xoxb-123456789012-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:6])
def test_known_forms_of_secrets_are_hidden(secret: str) -> None:
    """Wherever they stand; the words around them stay."""
    assert redact(f"Use {secret} for it.") == f"Use {HIDDEN} for it."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password: hunter2, then go", f"password: {HIDDEN}, then go"),
        ('{"api_key": "abc def"}', f'{{"api_key": {HIDDEN}}}'),
        ("DB_PASSWORD=hunter2", f"DB_PASSWORD={HIDDEN}"),
        ("Authorization: Bearer abcdef", f"Authorization: {HIDDEN}"),
        ("postgres://me:hunter2@host/db", f"postgres://me:{HIDDEN}@host/db"),
    ],
)
def test_what_is_called_a_secret_is_hidden(text: str, shown: str) -> None:
    """The name stays, so that a reader knows what stood there."""
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text", ["Which token is the most common?", "Mean of key 3", "a skeleton: sk-1", "at 12:30 http://host:80/a@b"]
)
def test_ordinary_questions_stay(text: str) -> None:
    """A question about tokens and keys is no secret."""
    assert redact(text) == text


def test_this_process_own_secrets_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever form they have."""
    monkeypatch.setenv("MY_SERVICE_TOKEN", "plain words here")
    monkeypatch.setenv("SHORT_KEY", "abc")
    assert redact("I said plain words here, abc.") == f"I said {HIDDEN}, abc."


def test_a_beginning_is_one_line_and_short() -> None:
    """Half a secret at the cut is hidden as a whole one is."""
    assert brief("a\n\n  b\tc") == "a b c"
    assert brief("x" * 500) == "x" * 99 + "…"
    assert "sk-proj" not in brief("y" * 90 + " sk-proj-abcDEF1234567890abcDEF")


@given(st.text(max_size=400), st.integers(2, 200))
def test_any_text_is_cut(text: str, limit: int) -> None:
    """Never longer than asked for, never two lines."""
    found = brief(text, limit=limit)
    assert len(found) <= limit
    assert "\n" not in found


def test_a_name_of_many_hyphens_takes_no_time() -> None:
    """Code in a sandbox names its programs, of which each is logged."""
    machine.within(20, lambda: redact(10_000 * "a-"))
    assert redact("--x-token=abc") == f"--x-token={HIDDEN}"
