"""What code prints, and models say, that is meant to make a reader fail or take for ever."""

from __future__ import annotations

from typing import Any, Final

UNITS: Final = {
    "digits": "9", "versions": "9.", "thousands": "1,234", "exponents": "1e999999999 ", "negative": "-1",
    "per cent": "1 % ", "ranges": "1 to ", "listed": "1. 2.5\n", "times": "1:00 ", "dates": "2020-01-01",
    "levels": "95 % conf ", "cells": "cell ", "apostrophes": "1'000",
    "brackets": "[", "parentheses": "(", "braces": "{", "objects": '{"a":', "code": '{"code": "', "pictures": "![",
    "pictures in pictures": "![a](b(c)", "links": "[a](", "links inside": "[x](/tmp/", "less": "<", "tags": "<a ",
    "img": "<img ", "img with quotes": "<img '", "comments": "<!--", "svg": "<svg>", "entities": "&#",
    "surrogates": "\ud800", "NUL": "\0", "right to left": "\u202e\u2066", "colours": "\x1b[31m", "titles": "\x1b]8;;",
    "escapes": "\x1b", "sequences": "\x1b[", "C1": "\x9b", "fences": "```\n", "one fence": "````", "backticks": "` ",
    "tildes": "~~~\n", "spaces": " ", "line ends": "\n", "returns": "a\r", "backspaces": "\b", "tabs": "\t",
    "wide": "😀", "combining": "e\u0301", "line separators": "\u2028", "backslashes": "\\", "quotes": '"',
    "keys": "sk-", "aws": "AKIA", "bearers": "bearer ", "passwords": "password=", "passwords said": "password is ",
    "private keys": "-----BEGIN PRIVATE KEY-----", "addresses": "a://b:", "mail": "a@", "thoughts": "<think>",
    "calls": "<tool_call>", "tables": "| a ", "bars": "x │ y\n", "commas": "x,y\n", "prompts": ">>> ", "shell": "!pip ",
    "headers": " password\n", "tabbed": "\tpassword\t\n", "words": "a.", "slashes": "/", "underscores": "_",
    "one backtick": "`", "installs": "%pip install a ", "bars of progress": "%|", "seconds": "1 s ",
    "alternating": "a b ", "hyphens": "a-", "billions": "1 billion ",
}  # fmt: skip
"""Each is said over and over."""
TEXTS: Final = {
    "a number with an exponent": "9" * 100_000 + "e999",
    "a small number": "0." + "0" * 100_000 + "1",
    "a number of a character": "&#" + "9" * 100_000,
    "a header of secrets": "password │ a\n" + "x │ y\n" * 10_000,
    "deep code": f"seed(0, {'-' * 2_000}1)",
    "a seed of many digits": f"seed(0, 0x{'f' * 5_000})",
    "many installs": "%pip install a " * 40 + "\nx",
    "a cut key": "-----BEGIN PRIVATE KEY-----" + "\nabcdefghijklmnopqrst" * 5_000,
}


def texts(length: int) -> dict[str, str]:
    """Hostile texts by name, most of them of about so many characters."""
    return {**{name: unit * (length // len(unit)) for name, unit in UNITS.items()}, **TEXTS}


BUNDLES: Final[tuple[dict[str, Any], ...]] = (
    {"application/json": [1, 2, 3]},
    {"application/json": {"a": [None, True, 1e308, 10**4000]}},
    {"application/json": -(10**4000)},
    {"application/json": "x"},
    {"application/json": None},
    {"text/plain": 5},
    {"text/plain": ["a", 5]},
    {"text/plain": {"a": "b"}},
    {"text/html": None},
    {"text/html": ["<img src=x", 5]},
    {"image/png": "not base64 \ud800"},
    {"image/png": {"a": 1}},
    {"image/png": "iVBORw0KGgo="},
    {"image/jpeg": "/9j/" + "A" * 100_000},
    {"image/svg+xml": "<svg>" * 50_000},
    {"text/latex": [], "text/markdown": {}},
    {"": ""},
    {"a" * 10_000: "b"},
    {},
)
"""MIME bundles whose values are not what their types say."""
