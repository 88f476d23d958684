"""Replies as structured objects: what small models send is read, what doesn't fit is told in short words."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from nbagent.agent import GeneratedCode
from nbagent.agent.messages.generated import MOST_TEXT, SCHEMA, WHY, FinalAnswer, UnreadableReplyError, parse

GOOD: dict[str, Any] = {"code": "print(55)", "dependencies": ["humanize"], "reasoning": "Adds.", "confidence": 0.9}
CODE = GeneratedCode(code="print(55)", dependencies=["humanize"], reasoning="Adds.", confidence=0.9)
TEXT = json.dumps(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        json.dumps(GOOD, indent=2),
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```",
        f"Sure! Here is {{the}} code, as {{asked}}:\n{TEXT}\nI hope it helps.",
        f"<think>Maybe {json.dumps({**GOOD, 'code': 'draft'})}?</think>\n{TEXT}",
        json.dumps({**GOOD, "language": "python"}),
        json.dumps({**GOOD, "confidence": "0.9"}),
        json.dumps({**GOOD, "answer": "It is 55."}),
        json.dumps({**GOOD, "answer": None}),
        f'{TEXT}\n{{"result": "55"}}\n{{"answer": "It is 55."}}',
        f'{{"note": 1}} {TEXT}',
        "\ufeff" + TEXT,
    ],
)
def test_what_is_meant_is_read(text: str) -> None:
    """Fences, words around it, thoughts, further fields; of code and an answer in one reply, the code."""
    assert parse(text) == CODE


def test_line_breaks_in_strings() -> None:
    """Are no JSON, and what small models write all the time."""
    found = parse(TEXT.replace("print(55)", "x = 1\nprint(x)\t"))
    assert isinstance(found, GeneratedCode)
    assert found.code == "x = 1\nprint(x)\t"


@pytest.mark.parametrize("empty", [{}, {"code": ""}, {"code": None}])
def test_an_answer(empty: dict[str, Any]) -> None:
    """Also beside code that is none."""
    assert parse(json.dumps({"answer": "It is 55.", **empty})) == FinalAnswer(answer="It is 55.")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it was empty"),
        (" \n\t", "it was empty"),
        ("The answer is 55.", "there is no JSON object with `code` or `answer` in it"),
        ("```python\nprint(55)\n```", "there is no JSON object"),
        ('[1, "code"]', "there is no JSON object"),
        ('{"name": "python", "arguments": {"x": 1}}', "there is no JSON object"),
        (TEXT[:-3], "no valid JSON"),
        (TEXT.replace('"', "'"), "no valid JSON"),
        ('{"code": "d = {"a": 1}", "dependencies": []}', "no valid JSON (Expecting ',' delimiter"),
        (json.dumps({each: GOOD[each] for each in GOOD if each != "code"}), "`code`: Field required"),
        (json.dumps({"code": "1"}), "`confidence`: Field required"),
        (json.dumps({**GOOD, "code": ["print(55)"]}), "`code`: Input should be a valid string"),
        (json.dumps({**GOOD, "code": " \n"}), "`code`: Value error, it is empty"),
        (json.dumps({**GOOD, "dependencies": "humanize"}), "`dependencies`: Input should be a valid list"),
        (json.dumps({**GOOD, "dependencies": [1]}), "`dependencies.0`: Input should be a valid string"),
        (json.dumps({**GOOD, "dependencies": ["a"] * 21}), "`dependencies`: List should have at most 20 items"),
        (json.dumps({**GOOD, "confidence": 7}), "`confidence`: Input should be less than or equal to 1"),
        (json.dumps({**GOOD, "confidence": -0.1}), "`confidence`: Input should be greater than or equal to 0"),
        (json.dumps({**GOOD, "confidence": float("nan")}), "`confidence`: Input should be a finite number"),
        (json.dumps({**GOOD, "confidence": "high"}), "`confidence`: Input should be a valid number"),
        (json.dumps({**GOOD, "code": "a\ud800"}), "`code`: Value error, it has half of a surrogate pair"),
        (json.dumps({"answer": 55}), "`answer`: Input should be a valid string"),
        (json.dumps({"answer": "  "}), "`answer`: Value error, it is empty"),
    ],
)
def test_what_does_not_fit_is_told(text: str, why: str) -> None:
    """Each field by its name, in few words."""
    with pytest.raises(UnreadableReplyError) as caught:
        parse(text)
    assert why in str(caught.value)
    assert len(str(caught.value)) <= WHY


def test_halves_of_surrogate_pairs() -> None:
    """Don't get into the words, which go into the log."""
    found = parse(json.dumps({**GOOD, "reasoning": "a\ud800", "dependencies": ["\udfffb"]}))
    assert found == GeneratedCode(code="print(55)", dependencies=["?b"], reasoning="a?", confidence=0.9)
    assert parse(json.dumps({"answer": "\ud800"})) == FinalAnswer(answer="?")


def test_code_of_any_size() -> None:
    """200 KB are read to the letter; more than any cell can be is not even looked at."""
    code = "x = 'ü\\n'\n" * 20_000
    found = parse(json.dumps({**GOOD, "code": code}))
    assert isinstance(found, GeneratedCode)
    assert found.code == code
    with pytest.raises(UnreadableReplyError, match="at most 2,000,000"):
        parse(" " * MOST_TEXT + TEXT)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 1_900_000,
        '{"a":' * 300_000,
        '{"a": "' + "{" * 1_900_000,
        "{ " * 60 + TEXT,
        '{"code": ' + "9" * 100_000 + "}",
        '{"code": ' + "[" * 200_000 + "}",
    ],
    ids=["brackets", "nested", "open", "late", "digits", "lists"],
)
def test_hostile_text_is_read_in_bounds(text: str) -> None:
    """Neither Python's recursion nor time give way."""
    began = time.process_time()
    with pytest.raises(UnreadableReplyError):
        parse(text)
    assert time.process_time() - began < 20


def test_what_is_installed() -> None:
    """Each distribution once, by its name on the index; what Python brings along is left out."""
    named = ["json", " humanize ", "humanize", "sklearn", "cv2", "os", "", "polars>=1", "evil; rm -rf /"]
    found = GeneratedCode(code="1", dependencies=named, reasoning="", confidence=1)
    assert found.requirements == ["humanize", "scikit-learn", "opencv-python-headless", "polars>=1", "evil; rm -rf /"]


def test_the_schema_names_both() -> None:
    """A server that holds a model to it lets it do the one or the other."""
    assert [each["$ref"].rpartition("/")[2] for each in SCHEMA["anyOf"]] == ["GeneratedCode", "FinalAnswer"]
    assert set(SCHEMA["$defs"]["GeneratedCode"]["required"]) == set(GOOD)
