"""What is hidden in text, and what isn't."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.core.errors import UsageError
from nbagent.safety.redaction import Redactor, secrets_of

PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIIEowIBAAKCAQEAabcd/+==\nq83vEjRWeJCrze8=\n-----END {0}PRIVATE KEY-----"
SECRETS = {
    "AKIAIOSFODNN7EXAMPLE": "aws key",
    "ACCAIOSFODNN7EXAMPLE": "aws key",
    "sk-proj-abcDEF-1234567890_abcDEF": "api key",
    "sk-ant-api03-abcdefghijklmnop": "api key",
    "sk-or-v1-0123456789abcdef0123456789abcdef": "api key",
    "sk-0123456789abcdef0123456789abcdef": "api key",
    "gsk_abcdefghijklmnopqrstuvwx1234": "api key",
    "sk_live_abcdefghij0123": "stripe key",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234": "google key",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789": "github token",
    "glpat-abcdefghijklmnopqrst": "gitlab token",
    "xoxb-123456789012-abcdef": "slack token",
    "hf_abcdefghijklmnopqrstuvwx": "hugging face token",
    "SG.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz": "sendgrid key",
    "123456789:AAabcdefghijklmnopqrstuvwxyz0123456": "telegram token",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl": "json web token",
    PEM.format("RSA "): "private key",
    PEM.format("").replace("\n", "\\n"): "private key",
}
ORDINARY = [
    "Which token is the most common, and what is the password policy?",
    "max_tokens=4096, token=tokenizer2.encode(text_of_it), password=getpass.getpass()",
    "password    object\ntoken       float64\nsecret        int64",
    "key: 8f14e45fceea167a5a36dedd4bea2543  sha: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "password=os.environ['DB'], api_key=${API_KEY}, password: <hidden>, password: ********",
    "password: str = None, token: str | None, secret: null",
    "PWD=/workspace OLDPWD=/ pwd: str",
    "at 12:30 http://host:80/a@b and ssh://git@host:22/x, git@github.com:a/b.git, s3://bucket/key:a@b",
    "sk-learn-tutorial-2024-notes, a skeleton: sk-1, risk-1234567890abcdefgh",
    "Enter password: \nnext line",
    "guide,spacer\ng1,ACCAGTTGACCATTGACCAT\ng2,ACCATTGNCCATTGACCATA",
    json.dumps([{"token": word, "count": 12} for word in ("the", "internationalization", "running")]),
]


def redactor(what: str = "secrets") -> Redactor:
    """One that knows no secrets of whoever runs the tests."""
    return Redactor(what, secrets={})


@pytest.mark.parametrize(("secret", "kind"), SECRETS.items(), ids=lambda each: each[:12])
def test_known_forms_are_hidden_wherever_they_stand(secret: str, kind: str) -> None:
    """Each is replaced by what it is; the words around it stay."""
    for before, after in (("Use ", " for it."), ("a='", "'"), ("x\n", "\ny"), ("(", ")"), ("a\\n", "\\nb"), ("é", "é")):
        assert redactor()(f"{before}{secret}{after}") == (f"{before}[redacted: {kind}]{after}", (kind,))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password: hunter2, then go", "password: [redacted: password], then go"),
        ("my password is hunter2x.", "my password is [redacted: password]"),
        ('{"db_password": "hun ter2"}', '{"db_password": "[redacted: password]"}'),
        (r"{\"password\": \"hunter2\"}", r"{\"password\": \"[redacted: password]\"}"),
        (r"a\nDB_PASSWORD=let\main\nX=1", r"a\nDB_PASSWORD=[redacted: password]\nX=1"),
        ("DB_PASSWORD=letmein\nX=1", "DB_PASSWORD=[redacted: password]\nX=1"),
        ("Server=h;Password=Str0ng!;x=1", "Server=h;Password=[redacted: password];x=1"),
        ("Server=h;Uid=sa;Pwd=Str0ng!;x=1", "Server=h;Uid=sa;Pwd=[redacted: password];x=1"),
        ("[{'user': 'bob', 'pwd': 'hunter2'}]", "[{'user': 'bob', 'pwd': '[redacted: password]'}]"),
        ("export API_KEY=abcd1234efgh5678ijkl", "export API_KEY=[redacted: secret]"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPx", "aws_secret_access_key = [redacted: secret]"),
        ("Authorization: Bearer abcdef123", "Authorization: [redacted: authorization]"),
        ("postgres://me:p@ss:w@host/db", "postgres://me:[redacted: password in a url]@host/db"),
        ("redis://:pw12@h:6379/0", "redis://:[redacted: password in a url]@h:6379/0"),
    ],
)
def test_what_is_called_a_secret_is_hidden(text: str, shown: str) -> None:
    """Its name stays, so that a reader knows what stood there."""
    assert redactor()(text).text == shown


@pytest.mark.parametrize("text", ORDINARY, ids=lambda text: text[:20])
def test_ordinary_text_stays(text: str) -> None:
    """Words about secrets, code that reads them, hashes and addresses are none."""
    assert redactor()(text) == (text, ())


def test_a_data_frame_stays() -> None:
    """Hashes, UUIDs, long numbers and an encoded image, as outputs are full of them."""
    chance = random.Random(7)  # noqa: S311 - no secret
    rows = [
        f"{row:5}  {hashlib.sha256(str(row).encode()).hexdigest()}  {uuid.UUID(int=chance.getrandbits(128))}  "
        f"{chance.randrange(10**15, 10**16)}  {chance.random() * 1e4:.6f}  Adelie"
        for row in range(500)
    ]
    image = base64.b64encode(chance.randbytes(300_000)).decode()
    text = "\n".join([*rows, image])
    assert redactor()(text) == (text, ())


def test_a_key_that_was_cut_is_hidden_as_far_as_it_goes() -> None:
    """Its end is missing; what comes after it stays. A sentence about a key's first line is no key."""
    cut = PEM.format("EC ").partition("\n-----END")[0]
    assert redactor()(f"{cut}\nthe rest").text == "[redacted: private key]\nthe rest"
    said = redactor()("It starts with -----BEGIN PRIVATE KEY----- and so on").text
    assert said == "It starts with [redacted: private key] and so on"


def test_the_persons_own_secrets_are_hidden_whatever_their_form() -> None:
    """Each by its variable; a path, a short value and a harmless variable are none."""
    environment = {
        "MY_SERVICE_TOKEN": "plain words here",
        "DATABASE_URL": "postgres://me:hunter2hunter2@db/x",
        "SSH_KEY": "/home/me/.ssh/id",
        "SHORT_KEY": "abc",
        "EDITOR": "visual editor",
    }
    found = Redactor(secrets=secrets_of(environment))(
        "plain words here hunter2hunter2 /home/me/.ssh/id abc visual editor"
    )
    assert found.text == "[redacted: $MY_SERVICE_TOKEN] [redacted: $DATABASE_URL] /home/me/.ssh/id abc visual editor"
    assert found.kinds == ("$DATABASE_URL", "$MY_SERVICE_TOKEN")


def test_the_persons_own_secrets_are_hidden_as_json_and_python_write_them() -> None:
    """As tools tell them in JSON, and a cell shows a string."""
    value = "pa\"ss\\wörd'1"
    redact = Redactor(secrets={value: "DB_PASSWORD"})
    for text in (value, json.dumps([value]), json.dumps([value], ensure_ascii=False), repr([value])):
        assert redact(f"It is {text}.").kinds == ("$DB_PASSWORD",), text
        assert "ss" not in redact(f"It is {text}.").text.replace("PASSWORD", "")


def test_this_process_own_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose secrets could be in the data, if not those of whoever runs it."""
    monkeypatch.setenv("NBAGENT_TEST_SECRET", "correct-horse")
    assert Redactor()("say correct-horse").text == "say [redacted: $NBAGENT_TEST_SECRET]"


def test_persons_are_hidden_only_if_that_is_wanted() -> None:
    """Addresses of mail, cards and accounts by their check digits; other numbers stay."""
    assert redactor("pii")("I am ann@example.org.").text == "I am [redacted: email address]."
    text = "ann.lee+x@mail.example.org 4111 1111 1111 1111 DE89 3704 0044 0532 0130 00 078-05-1120"
    wrong = "4111 1111 1111 1112, DE89 3704 0044 0532 0130 01, 000-05-1120, a@b, 12.5@3, pkg@1.2.3"
    assert redactor()(text) == (text, ())
    assert redactor("pii")(text).kinds == ("email address", "iban", "payment card", "social security number")
    assert redactor("pii")(wrong) == (wrong, ())


def test_nothing_is_hidden_if_that_is_wanted() -> None:
    """A person's word; another word is an error."""
    assert Redactor("none")("AKIAIOSFODNN7EXAMPLE") == ("AKIAIOSFODNN7EXAMPLE", ())
    with pytest.raises(UsageError, match=r"nothing called 'all' to redact.*secrets, pii, none"):
        Redactor("all")


SIZE = 200_000
HOSTILE = [
    *("eyJ-", "eyJaaaaaaaaaa.", "sk-", " sk-a", "password", 'password="', "password    ", "password is ", "token="),
    *("token=aaaaaaaaaaaaaaaaaaa ", "secret_key", "a://", "a://b:", "://:", "a@", "a.", "a@b.", "4", "4111 ", "DE12"),
    *("DE12 ABCD ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----" + "A" * 30, "-----END ", "-"),
    *("-----BEGIN PRIVATE KEY----- -----END ", "authorization: bearer ", "SG.aaaaaaaaaaaaaaaaaaaa.", "12345678:AA"),
    *("hooks.slack.com/services/", "123-45-", " ", "a", "é@", "password:\t", "[redacted", '\\"password\\": \\"'),
]


def test_hostile_text_takes_time_in_proportion() -> None:
    """Text of what looks like the beginning of secrets takes about eight times an eighth of it, not sixty-four."""
    look = redactor("pii")

    def seconds(text: str) -> float:
        taken = []
        for _ in range(3):
            started = time.process_time()
            look(text)
            taken.append(time.process_time() - started)
        return min(taken)

    for piece in [*HOSTILE, "a://b:" + "c" * SIZE, "token=" + "a" * (SIZE - 7) + "(", "a" * (SIZE - 1) + "@"]:
        text = (piece * (SIZE // len(piece) + 1))[:SIZE]
        # A floor in the same run, so that a slow machine changes nothing.
        assert seconds(text) < 30 * max(seconds(text[: SIZE // 8]), 0.005), piece[:30]


@given(st.text(alphabet="aAk-_=:@/.\"' \n0128eyJsSgGhp-password token", max_size=300))
def test_any_text_is_redacted_once(text: str) -> None:
    """What was redacted has nothing more to hide."""
    once = redactor("pii")(text)
    assert redactor("pii")(once.text).text == once.text
