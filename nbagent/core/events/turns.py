"""The value `Answer`, and the events of questions, requests to the model, replies and answers. The agent emits them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from nbagent.core.events import display
from nbagent.core.events.base import Fact, Output
from nbagent.core.events.cells import Cell
from nbagent.core.events.packages import Package
from nbagent.core.text import joined

FIGURE_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/svg+xml": "svg"}
"""MIME types of figures, the preferred first, with the endings of their files."""
_ALTERNATIVE = re.compile(r"(?m)^[\s>*_-]{0,9}Alternative[*_]{0,3}:[*_]{0,3}[^\S\n]?(.+)$")
"""A line of an answer that names another reading of the question, as the model is told to write it."""


class Claim(msgspec.Struct, frozen=True):
    """A number in an answer, and where it comes from.

    Attributes:
        text: The number, as the answer has it.
        cell: The cell whose output shows it; 0 if none does.
        output: The index of that cell's output, from 0; -1 if none.
        shown: The number as the output has it, such as `12.3456` for a claim of `12.3`; if it is `written`, as the code
            has it.
        again: The cell that found it a second time when the answer was checked; 0 if none did.
        noted: Whether no output shows it, but a note beside the data says it.
        written: Whether it is only shown because the code itself has it, which is no evidence.
        derived: How it follows from numbers that outputs show, such as `45.2 / 40.2 − 1`, if no output shows it itself.
        sources: The cells that show these numbers; or the one that shows what is `written`.
    """

    text: str
    cell: int = 0
    output: int = -1
    shown: str = ""
    again: int = 0
    noted: bool = False
    written: bool = False
    derived: str = ""
    sources: tuple[int, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether an output shows it, a note beside the data says it, or it follows from what outputs show."""
        return self.cell > 0 or self.noted or bool(self.derived)

    @property
    def derivation(self) -> str:
        """What it follows from, if it does: `12.4 % = 45.2 / 40.2 − 1 (cell 3)`."""
        cells = f"cell{'s' if len(self.sources) > 1 else ''} {', '.join(map(str, self.sources))}"
        return f"{self.text} = {self.derived} ({cells})" if self.derived else ""


def doubts(claims: Sequence[Claim]) -> list[str]:
    """What a reader has to know of numbers in which no output bears them out, in sentences."""
    told = {
        "Shown by no cell": [each.text for each in claims if not (each.supported or each.written)],
        "Only the code says": [each.text for each in claims if each.written],
        "Only notes beside the data say": [each.text for each in claims if each.noted],
    }
    derived = "; ".join(each.derivation for each in claims if each.derived)
    found = [f"{what}: {', '.join(numbers)}." for what, numbers in told.items() if numbers]
    return [*found, f"Derived, computed by no cell: {derived}."] if derived else found


class Usage(msgspec.Struct, frozen=True):
    """The tokens and calls that the model used.

    Attributes:
        input_tokens: All tokens of the input, cached ones included.
        output_tokens: All tokens of the output, those of thinking included.
        calls: The number of calls.
        cached_tokens: Tokens of the input that the provider had cached, which cost less.
        cost: US dollars, by the price list; None if a price isn't known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    cached_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        if NO_USAGE in (self, other):
            return other if self == NO_USAGE else self
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.calls + other.calls,
            self.cached_tokens + other.cached_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
        )

    def __sub__(self, other: Usage) -> Usage:
        """The usage since `other`, an earlier value of the same sum."""
        return Usage(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.calls - other.calls,
            self.cached_tokens - other.cached_tokens,
            None if self.cost is None else self.cost - (other.cost or 0.0),
        )


NO_USAGE = Usage()


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A second computation of an answer's numbers from the data, before the person saw it.

    Attributes:
        cells: The cells that ran for it; none if the model would not.
        again: The numbers of the answer that these show, too.
        alone: Those that they don't show.
        new: Those that no other cell shows.
        reused: Variables and functions of earlier cells that they used, on which both computations depend.
        changed: Whether the answer was another one before.
        usage: What models used for it.
        seconds: How long it took.
    """

    cells: list[int]
    again: list[str] = []
    alone: list[str] = []
    new: list[str] = []
    reused: list[str] = []
    changed: bool = False
    usage: Usage = NO_USAGE
    seconds: float = 0.0

    @property
    def told(self) -> str:
        """What the second computation found, and what it cost, in sentences."""
        cells = "cell " + ", ".join(map(str, self.cells))
        found = [f"found {', '.join(self.again)} again"] if self.again else []
        found += [f"did not find {', '.join(self.alone)}"] if self.alone else []
        found += [f"was the first to find {', '.join(self.new)}"] if self.new else []
        if not self.cells:
            told = "Not checked: no cell computed it again."
        elif not found:
            told = "Not checked: it has no number that a cell shows."
        else:
            in_part = " in part" if self.alone or self.new or self.reused else ""
            told = f"Checked{in_part}: {cells} {'; '.join(found)}."
        told += f" It used {', '.join(self.reused)} of earlier cells." if self.reused else ""
        told += " The answer was another one before." if self.changed else ""
        tokens = self.usage.input_tokens + self.usage.output_tokens
        calls = f"{self.usage.calls} more call{'' if self.usage.calls == 1 else 's'} of the model"
        return f"{told} This took {calls}{f', {tokens:,} tokens' if tokens else ''} and {self.seconds:.1f} s."


class Piece(msgspec.Struct, frozen=True):
    """Something that was sent to a model.

    Attributes:
        source: Where it comes from: `system prompt`, `data description`, `tools`, `question`, `reply` (the model's own,
            which is sent again with what follows), `note` (nbagent's words), `cell 3`, `figure of cell 3`, `tool NAME`.
        size: Bytes of a text in UTF-8 or a picture in base64, without the JSON around it.
        sha256: The hash of these bytes, in hexadecimal.
        redacted: The kinds of the secrets that were hidden in it.
    """

    source: str
    size: int
    sha256: str
    redacted: list[str] = []


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question.

    Attributes:
        turn: The question's number, from 1.
        text: The answer in words.
        success: Whether the model ended by itself with a supported answer: its last cell ran without an error, or the
            answer has numbers and each of them is in an output.
        attempts: One plus the number of cells that failed.
        usage: Tokens and calls of the model.
        seconds: Seconds from the question to the answer.
        claims: The numbers in the text, each with the output that shows it, if one does.
        check: The second computation of these numbers; None if there was none.
        cells: The cells that ran for it, in order.
        files: The files that its cells saved in /tmp/output, on the host.
        installed: Packages that were installed for it.
    """

    turn: int
    text: str
    success: bool
    attempts: int
    usage: Usage = Usage()
    seconds: float = 0.0
    claims: list[Claim] = []
    check: Check | None = None
    cells: list[Cell] = []
    files: list[Path] = []
    installed: list[Package] = []

    def __repr__(self) -> str:
        how = "" if self.success else ", success=False"
        return f"Answer({self.turn}, {display.brief(self.text)}, cells={len(self.cells)}{how})"

    def _ipython_display_(self) -> None:
        display.publish(self._bundles())

    def _bundles(self) -> Iterator[dict[str, str]]:
        """What it is in a notebook: the code that ran for it, folded, its figures, and the words."""
        if self.cells:
            code = "\n\n".join(f"# cell {each.cell}\n{each.code.rstrip()}" for each in self.cells)
            yield display.folded(
                "the code of 1 cell" if len(self.cells) == 1 else f"the code of {len(self.cells)} cells", code
            )
        for cell in self.cells:
            yield from (each for each in display.outputs_of(cell.outputs) if set(display.PICTURES) & each.keys())
        yield from map(display.markdown, [self.text, *self.remarks])

    @property
    def figures(self) -> list[Figure]:
        """The figures that the answer's cells showed."""
        return [figure for cell in self.cells for figure in figures(cell.cell, cell.outputs)]

    @property
    def alternatives(self) -> list[str]:
        """What the answer says of other readings of the question, each with its result."""
        return [line[1].strip() for line in _ALTERNATIVE.finditer(self.text)]

    @property
    def unsupported(self) -> list[str]:
        """The numbers that nothing bears out: no output, but for what the code itself has, no note, no other number."""
        return [claim.text for claim in self.claims if not claim.supported]

    @property
    def noted(self) -> list[str]:
        """The numbers that only notes beside the data say."""
        return [claim.text for claim in self.claims if claim.noted]

    @property
    def derived(self) -> list[str]:
        """The numbers that no output shows, but that follow from shown ones, each with how it does and the cells."""
        return [claim.derivation for claim in self.claims if claim.derived]

    @property
    def remarks(self) -> list[str]:
        """What every face tells a reader right below it, in sentences: doubts of its numbers, how its check ended."""
        return doubts(self.claims) + ([self.check.told] if self.check else [])


class Figure(msgspec.Struct, frozen=True):
    """A picture that a cell showed.

    Attributes:
        name: A name for its file, by its cell and its place there: `cell-3-figure-1.png`.
        mime_type: What it is, such as `image/png`.
        content: The file's bytes.
        cell: The cell's number.
    """

    name: str
    mime_type: str
    content: bytes
    cell: int


def figures(cell: int, outputs: Iterable[Output], *, first: int = 1) -> Iterator[Figure]:
    """The figures among a cell's outputs, in order; data that can't be decoded is left out."""
    number = first - 1
    for output in outputs:
        data = output.get("data") or {}
        mime = next((each for each in FIGURE_ENDINGS if each in data), None)
        if mime is None:
            continue
        text = joined(data[mime])
        content = text.encode() if mime.endswith("xml") else _decode(text)
        if content:
            number += 1
            yield Figure(f"cell-{cell}-figure-{number}.{FIGURE_ENDINGS[mime]}", mime, content, cell)


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


class Asked(Fact, frozen=True, kw_only=True):
    """A person asked a question; `turn` counts from 1."""

    turn: int
    question: str
    model: str = ""
    replay: bool = False
    budget: str = ""
    """What it may use, in words."""


class TurnUndone(Fact, frozen=True, kw_only=True):
    """A person took back what a question had done to the kernel, or (`undone` is False) wants it after all.

    If its cells had done anything, `StateLost` and `StateRestored` follow.
    """

    turn: int
    cells: list[int]
    """The cells that had made the kernel's state before, or make it again."""
    undone: bool = True


Phase = Literal["comprehension", "orchestration", "reasoning", "evaluation", "conversation"]
"""The phases of a question, see `agent/phases.py`."""


class PhaseEntered(Fact, frozen=True, kw_only=True):
    """A question entered a phase."""

    turn: int
    phase: Phase
    text: str = ""
    """What the phase begins with: data and needs, tools, the first cell, the numbers of the answer."""
    sent_back: bool = False
    """Whether the model is asked again after an evaluation."""


class ModelReplied(Fact, frozen=True, kw_only=True):
    """The model gave a reply: words, and calls of tools."""

    turn: int
    text: str
    tools: list[str] = []
    """The names of the tools that it calls."""
    usage: Usage = Usage()
    model: str = ""
    """The fallback model that replied; empty for the first model."""


UNSURE_BELOW = 0.5
"""The confidence below which faces show it."""


class CodeGenerated(Fact, frozen=True, kw_only=True):
    """The model replied with code as a structured object. Its dependencies are installed before it runs."""

    turn: int
    code: str
    dependencies: list[str] = []
    """The distributions that are installed for it."""
    reasoning: str = ""
    confidence: float
    """The model's confidence, from 0 to 1."""


class ModelFailed(Fact, frozen=True, kw_only=True):
    """A model gave no complete reply; it is asked again after `wait` seconds, or not at all."""

    turn: int
    model: str
    reason: str
    """A sentence for a person."""
    usage: Usage = Usage()
    """The usage of the attempt, as far as the provider reported it; `calls` is 0 if it reported nothing."""
    wait: float | None = None
    """Seconds until the same model is asked again; None if it isn't in this question."""


class SentToModel(Fact, frozen=True, kw_only=True):
    """A request was sent to a model. Each attempt is an event, also one that fails."""

    turn: int
    model: str
    host: str
    """The host that it was sent to; empty for recorded replies."""
    size: int
    """Bytes of all its pieces."""
    pieces: list[Piece]
    """The pieces that had not been sent to this host before."""
    resent: int = 0
    """The number of pieces that this process had sent there before, since each call sends the whole conversation."""
    purpose: Literal["answer", "critique"] = "answer"


class Reflected(Fact, frozen=True, kw_only=True):
    """The agent reacted to code that failed, or to replies that did the same several times."""

    turn: int
    attempt: int
    """The number of replies in a row whose code failed, or that were the same."""
    state: Literal["critique", "retry", "gave up"]
    error: str
    """The end of the last failed result."""
    critique: str = ""
    usage: Usage = Usage()
    """The usage of the critic's model."""


class Answered(Answer, Fact, frozen=True, kw_only=True, omit_defaults=True):
    """A turn ended. Its cells, files and packages have events of their own, and are not in this one."""
