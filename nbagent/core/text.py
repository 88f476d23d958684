"""Text that others wrote, made safe to show and cut to the room that there is. Pure.

| function | for |
|---|---|
| `safe` | a terminal, or another place where a person reads it |
| `plain` | a model, or another reader that has no terminal |
| `one_line` | a part of a sentence or a list |
| `printable` | a name or a path, in which each character counts |
| `visible` | a person's decision: nothing in it is hidden |
| `undirected` | a model or a person, who must see what turns the direction of writing |
| `legible` | a model, without signs that a person wouldn't see |
| `cut`, `ends` | text that is too long: its beginning, or both ends |
| `share` | several texts that have one room: what is short leaves its room to the others |
| `fenced` | Markdown, where it is shown as it is |
| `occurrences` | whoever looks for many words in it at once |
| `joined` | whoever reads nbformat, whose text may be a list of lines |
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

_ESCAPE: Final = re.compile(
    r"(\x1b\[[0-9;:]*m)"  # colours, the only ones that are ever kept
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # system commands and other strings: titles, links, the clipboard
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # moving, clearing, reporting
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)

SURROGATES: Final = re.compile("[\ud800-\udfff]")
"""What stands for bytes that aren't UTF-8, or is half of a sign: UTF-8 can't encode it."""
UNUSABLE: Final = re.compile("[\x00\ud800-\udfff]")
"""What no source of Python's may have."""
BLANK: Final = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef"
)
"""Letters, marks and symbols without a sign of their own, which Python prints, as a class of a regular expression has
them: fillers, blanks, selectors of variants. The panel takes them from here (`.ci/panel_types.py`), and a test of its
own (`sentences.test.mjs`) compares them with what Unicode lets a page ignore (`Default_Ignorable_Code_Point`)."""
_BLANK: Final = re.compile(f"[{BLANK}]")
_DIRECTION: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def safe(text: str, *, colours: bool = False) -> str:
    r"""Text that can't steer a terminal: without escape sequences, and with U+FFFD for each control character.

    Args:
        text: Any text; its tabs and line ends stay, as `\n`.
        colours: Whether sequences that set only colours and styles of text stay, too.
    """

    def keep(found: re.Match[str]) -> str:
        if found[1] is not None and colours:
            return found[1]
        return "" if found[0].startswith("\x1b") else "\ufffd"

    return _ESCAPE.sub(keep, text.replace("\r\n", "\n"))


def plain(text: str) -> str:
    r"""Text without escape sequences and control characters; of a line that `\r` overwrites, its last state."""
    text = _ESCAPE.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(each.rstrip("\r").rpartition("\r")[2] for each in text.split("\n"))
    return text


def printable(text: str) -> str:
    """Text on one line, with U+FFFD for each character that can't be printed."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def legible(text: str) -> str:
    """Text without signs that a reader doesn't see but a model or a terminal may obey.

    Control characters, invisible and bidirectional format characters, tag characters and the variation selectors that
    can carry a hidden message are dropped; line ends and tabs stay.
    """

    def is_seen(sign: str) -> bool:
        if sign in "\n\t":
            return True
        return unicodedata.category(sign)[0] != "C" and not 0xFE00 <= ord(sign) <= 0xFE0F and ord(sign) < 0xE0000

    return "".join(sign for sign in text.replace("\r\n", "\n") if is_seen(sign))


def one_line(text: str, limit: int = 500) -> str:
    """Text on one line of `limit` characters at most, with U+FFFD for each character that can't be printed.

    Nothing in it can look like another line, or turn the direction of writing.
    """
    return cut(printable(" ".join(safe(text).split())), limit)


def visible(text: str) -> str:
    """Text on one line in which nothing is hidden: what isn't seen is shown as its hexadecimal number."""
    return _BLANK.sub(_numbered, "".join(each if each.isprintable() else _escape_sequence(each) for each in text))


def _numbered(found: re.Match[str]) -> str:
    """A character that Python calls printable and nobody sees; behind a symbol, a selector makes an emoji of it."""
    before = found.string[found.start() - 1] if found.start() else " "
    is_emoji = found[0] == "\ufe0f" and unicodedata.category(before) in ("So", "Sm") and not _BLANK.match(before)
    return found[0] if is_emoji else _escape_sequence(found[0])


def visible_lines(text: str) -> str:
    """The same, but for line ends, which stay."""
    return "\n".join(map(visible, text.split("\n")))


def undirected(text: str) -> str:
    """Text in which signs that turn the direction of writing are shown as their hexadecimal numbers."""
    return _DIRECTION.sub(lambda found: _escape_sequence(found[0]), text)


def _escape_sequence(sign: str) -> str:
    number = ord(sign)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def cut(text: str, limit: int, *, mark: str = "…") -> str:
    """The text if it has at most `limit` characters, else its beginning and the mark, together `limit` characters."""
    return text if len(text) <= limit else text[: limit - len(mark)] + mark


def ends(
    text: str, *, head: int, tail: int, mark: Callable[[int], str] = lambda count: f" … {count:,} more characters … "
) -> str:
    """The text, or its first `head` and last `tail` characters with a mark of how many are missing between them."""
    left_out = len(text) - head - tail
    return text if left_out <= 0 else f"{text[:head]}{mark(left_out)}{text[len(text) - tail :]}"


SHORT = 1_000
"""Characters up to which a text is looked through for each of some words."""


def occurrences(
    words: Collection[str], text: str, *, before: re.Pattern[str], behind: re.Pattern[str], apart: bool = False
) -> Iterator[tuple[int, int]]:
    """Where some words stand in a text, by beginnings, and at each the longest first; in one pass over it.

    However many words there are, each place costs about the same: whichever of them begin what stands there are the
    last one that isn't behind it in the order of the alphabet, and words with which that one begins.

    Args:
        words: The words.
        text: The text.
        before: Matches, without a character, where one may begin.
        behind: The same, where one may end.
        apart: Whether what begins in another is left out.
    """
    # To look for each first is less than to order all, if the text is short.
    ordered = sorted(each for each in set(words) if each and (len(text) > SHORT or each in text))
    sizes: list[tuple[int, ...]] = []  # of the words with which each begins, itself included
    above: list[int] = []
    for at, word in enumerate(ordered):
        while above and not word.startswith(ordered[above[-1]]):
            above.pop()
        sizes.append((*(len(ordered[each]) for each in above), len(word)))
        above.append(at)
    most, end = max(map(len, ordered), default=0), 0
    for place in before.finditer(text) if ordered else ():
        start = place.start()
        if start < end or not (at := bisect.bisect_right(ordered, text[start : start + most])):
            continue
        word, found = ordered[at - 1], sizes[at - 1]
        fitting = bisect.bisect(found, False, key=lambda size: not text.startswith(word[:size], start))
        for size in reversed(found[:fitting]):
            if behind.match(text, start + size):
                yield start, start + size
                if apart:
                    end = start + size
                    break


def size_of(size: int) -> str:
    """A number of bytes in words: `2.1 MB`."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"


def fenced(text: str, language: str = "") -> str:
    """Text as a block of code in Markdown, behind a fence that is longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def joined(value: object) -> str:
    """A string of nbformat, which may be split into a list of lines."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def share(sizes: Iterable[int], room: int) -> int:
    """What each of several texts may take of a room: those that need less stay whole, and leave the rest to others."""
    ordered, most = sorted(sizes), room
    for number, size in enumerate(ordered):
        most = room // (len(ordered) - number)
        room -= min(size, most)
    return most
