"""What a question needs, by its words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbagent.mcp.capabilities import CAPABILITIES, capabilities_of, needs_of, stem, words_of


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        # the seed's own
        ("Read the file", "file:read"),
        ("Search the web", "web:search"),
        ("Execute Python", "code:python"),
        # other forms of the words
        ("I am reading these files", "file:read"),
        ("could you look that up online?", "web:search"),
        ("Searching the Internet for penguins", "web:search"),
        ("Please run this script", "code:python"),
        ("What's in sales.csv? Show it", "file:read"),
        # other things
        ("Search for Python docs and summarize", "web:search"),
        ("summarize https://example.org/a.html", "web:fetch"),
        ("Write the result to report.md", "file:write"),
        ("List the files in the folder", "file:list"),
        ("What's the weather in NYC?", "weather:read"),
        ("What time is it in Tokyo?", "time:now"),
        ("Create an issue for this bug", "issue:write"),
        ("Which commits are in the repository?", "git:read"),
        ("email Bob: send him an email", "email:send"),
        ("Post a message to the channel", "chat:send"),
        ("Query the database", "database:query"),
        ("What is the mean bill length by species?", "data:analyse"),
        ("plotting sales by month", "chart:plot"),
        ("Translate this into French", "text:translate"),
        ("SEARCH THE WEB", "web:search"),
        ("search\u00a0the web", "web:search"),
    ],
)
def test_words_tell_what_is_needed(question: str, wanted: str) -> None:
    """One capability follows from each of these, and no other."""
    assert needs_of(question).wanted == (wanted,)


@pytest.mark.parametrize(
    ("question", "wanted", "unwanted"),
    [
        ("Don't search the web", (), {"web:search"}),
        ("Don\u2019t search the web", (), {"web:search"}),
        ("Read the file but do not search the web", ("file:read",), {"web:search"}),
        ("Read the file without searching the web", ("file:read",), {"web:search"}),
        ("Never open websites. Plot the data.", ("chart:plot",), {"web:fetch"}),
        ("Not only search the web, also read the file", ("file:read", "web:search"), set()),
        ("Search the web, not the database", ("web:search",), set()),
        ("Don't search the web.\nRead the file data.csv", ("file:read",), {"web:search"}),
    ],
)
def test_a_negation_forbids_to_its_clause_s_end(question: str, wanted: tuple[str, ...], unwanted: set[str]) -> None:
    """What a person doesn't want is not what they want."""
    found = needs_of(question)
    assert (found.wanted, found.unwanted) == (wanted, unwanted)


@pytest.mark.parametrize(
    "question",
    ["", "Lies die Datei", "ファイルを読む", "اقرأ الملف", "Прочитай файл", "\ud800", "🐧" * 100, "a" * 100_000],
)
def test_other_languages_need_nothing_that_is_known(question: str) -> None:
    """They are no error."""
    assert needs_of(question).wanted == ()


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    """Whatever is asked, what is found out is known, and never both wanted and not."""
    found = needs_of(text)
    assert set(found.wanted) <= set(CAPABILITIES)
    assert not found.unwanted & set(found.wanted)


@pytest.mark.parametrize(
    ("forms", "one"),
    [
        ("read reads reading", "read"),
        ("write writes writing", "writ"),
        ("search searches searched searching", "search"),
        ("query queries queried querying", "query"),
        ("plot plots plotted plotting", "plot"),
        ("file files", "fil"),
    ],
)
def test_forms_of_a_word_have_one_stem(forms: str, one: str) -> None:
    """So that each is looked for once."""
    assert {stem(form) for form in forms.split()} == {one}


def test_names_of_tools_are_words() -> None:
    """Both ways of writing them."""
    assert words_of("read_textFile") == ["read", "text", "fil"]


@pytest.mark.parametrize(
    ("name", "description", "by_name", "by_description"),
    [
        ("read_text_file", "", {"file:read"}, set()),
        ("writeFile", "", {"file:write"}, set()),
        ("brave_web_search", "Performs a search", {"web:search"}, set()),
        ("fetch", "Fetches a URL from the internet. Never writes files.", set(), {"web:fetch"}),
        ("get_current_time", "", {"time:now"}, set()),
        ("slack_post_message", "", {"chat:send"}, set()),
        ("query", "Run a read-only SQL query", set(), {"database:query"}),
        ("echo", "Echoes back the input", set(), set()),
    ],
)
def test_what_a_tool_is_for(name: str, description: str, by_name: set[str], by_description: set[str]) -> None:
    """Its name tells more than its description, of which the first sentence counts."""
    assert capabilities_of(name, description) == (by_name, by_description)
