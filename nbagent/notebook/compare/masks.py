"""What is masked in any text before it is compared: shapes that are never a result, and a person's own rules. Pure."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nbagent.core.errors import UsageError

LONGEST = 1024 * 1024
"""Characters of a file of rules."""
_UNIT = r"(?:ns|µs|us|μs|ms|s|sec|min|h|d|day|days)"
# Numbers, words and repetitions have bounds, so that the time to look for them grows with the text and no faster.
_TIME = rf"\d[\d.,]{{0,20}}(?:e[-+]?\d{{1,3}})? {_UNIT}(?: \d[\d.]{{0,20}} ?{_UNIT}){{0,4}}"
_COUNT = r"[\d,]{1,20}"


class Mask(NamedTuple):
    """What is replaced, and by what."""

    pattern: re.Pattern[str]
    replacement: str

    def apply(self, text: str) -> str:
        """The text with all that fits replaced."""
        return self.pattern.sub(self.replacement, text)


BUILT_IN = tuple(
    Mask(re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
        (r"\bat 0x[0-9a-fA-F]+\b", "at 0xADDRESS"),
        (r"<ipython-input-\d+-[0-9a-f]+>", "CELL"),
        (r"(?:(?<![\w/.-])[\w/.-]*/)?ipykernel(?:_\d{1,20})?/\d{1,20}\.py", "CELL"),
        (r"\bIn ?\[\d{1,20}\]", "In [N]"),
        (rf"{_TIME} ± {_TIME} per loop \(mean ± std\. dev\. of {_COUNT} runs?, {_COUNT} loops? each\)", "TIMING"),
        (r"^The slowest run took [\d.,]+ times longer than the fastest\..*\n?", ""),
        (rf"^(?:CPU times|Compiler time|Parser|Wall time): .*{_UNIT}$", "TIMING"),
        (r"(?<=%\|)[^|\n]{0,400}\|( {0,20}\S{1,80}) \[[^\]\n]{0,200}\]", r"BAR|\1 [TIMING]"),
        (r"/(?:tmp|var/folders/\S{1,60})/tmp[a-z0-9_]{8}\b", "TEMPORARY"),
    )
)  # fmt: skip
"""Addresses of objects, names of cells' files, IPython's timings, progress bars of tqdm, temporary files."""


def masked(text: str, rules: Iterable[Mask] = ()) -> str:
    """A text with what is never a result masked.

    Args:
        text: What a cell showed.
        rules: A person's own, which come first.
    """
    for rule in (*rules, *BUILT_IN):
        text = rule.apply(text)
    return text


def read_masks(path: Path) -> list[Mask]:
    """A file of rules in the form of nbval's `--nbval-sanitize-with`: sections with `regex` and `replace`.

    Raises:
        UsageError: It can't be read, or a rule is none.
    """
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8")[:LONGEST], source=str(path))
        return [Mask(re.compile(parser[name]["regex"]), parser[name]["replace"]) for name in parser.sections()]
    except (OSError, UnicodeError, configparser.Error) as error:
        raise UsageError(f"{path} can't be read as rules: {str(error).splitlines()[0]}.") from error
    except KeyError as error:
        raise UsageError(
            f"A section of {path} has no {error}.", mend="Each rule has regex: … and replace: …"
        ) from error
    except re.error as error:
        raise UsageError(f"A regex in {path} is wrong: {error}.") from error
