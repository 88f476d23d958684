"""The text of one stream output: folded the way JupyterLab shows it, its head and tail kept, the rest counted.

All lengths are characters (Unicode code points). What comes out depends on the text only, never on how the kernel cut
it into messages, so that a second run of the same cell can be compared with the first.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from typing import Final

from nbagent.core.events import Output
from nbagent.core.text import SURROGATES
from nbagent.kernel.outputs.limits import OutputLimits
from nbagent.sandbox.inside.message_sizes_inside import left_out

Spill = Callable[[str, str], None]
"""Called with a stream's name and text that is left out between head and tail, in order. Its exceptions pass."""

_BLOCK: Final = 256 * 1024
"""Longer messages are worked on in pieces of so many characters, so that copies stay small."""
_CURSOR: Final = re.compile("[\r\b]")
_BACKSPACES: Final = re.compile("\b+|[^\b]+")


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file can hold, by U+FFFD.

    Plain text comes back as the same object, without a copy.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return SURROGATES.sub("\ufffd", text)
    return text


class LineFold:
    r"""Applies `\r` and backspace to a text that comes in pieces, as JupyterLab 4.6 does.

    `\r` moves to the start of the line and what follows overwrites it, character by character, so the end of a longer
    line stays. `\n` goes on after the end of the line, hence `\r\n` is a line break. A backspace deletes the character
    before it, and, when the cursor is inside of the line, the one under it too; it stops at the start of the line.
    Everything else, colour codes too, is text.

    Two bounds keep hostile text cheap. A line breaks for `\r` and backspace (not in the text) after `width`
    characters, as a terminal's does. After `edits` characters `\r` or backspace, further ones are not obeyed: `\r`
    becomes a line break, a backspace goes.

    Attributes:
        edits: How many `\r` and backspaces will still be obeyed.
    """

    def __init__(self, *, width: int = 8192, edits: int = 500_000) -> None:
        self.edits = edits
        self._width = width
        self._row: list[str] = []
        self._length = 0
        self._column = 0

    def feed(self, text: str) -> str:
        """Take the next piece; return the text that nothing can change any more."""
        if "\r" not in text and "\b" not in text:
            return self._plain(text)
        text = self._afford(text.replace("\r\n", "\n"))
        final = []
        start = 0
        while found := _CURSOR.search(text, start):
            at = found.start()
            line = text.rfind("\n", start, at) + 1
            if line > start:
                final.append(self._plain(text[start:line]))
                start = line
            end = text.find("\n", at)
            if end < 0:
                final.append(self._edit(text[start:]))
                return "".join(final)
            final += [self._edit(text[start:end]), self.flush(), "\n"]
            start = end + 1
        return "".join(final) + self._plain(text[start:])

    @property
    def open(self) -> int:
        """Characters of the open line, which `flush` would return."""
        return self._length

    def flush(self) -> str:
        """Return the open line as it stands, and begin a new one."""
        row = "".join(self._row)
        self._row.clear()
        self._length = self._column = 0
        return row

    def _afford(self, text: str) -> str:
        count = text.count("\r") + text.count("\b")
        if count <= self.edits:
            self.edits -= count
            return text
        self.edits = 0
        return text.replace("\r", "\n").replace("\b", "")

    def _plain(self, text: str) -> str:
        r"""Take text without `\r` and backspace."""
        first = text.find("\n")
        if first < 0:
            return self._write(text)
        after = text.rfind("\n") + 1
        final = self._write(text[:first]) + self.flush() + text[first:after]
        return final + self._write(text[after:])

    def _edit(self, line: str) -> str:
        """Take text without line breaks."""
        final = []
        for index, piece in enumerate(line.split("\r")):
            if index:
                self._column = 0
            for run in _BACKSPACES.findall(piece) if "\b" in piece else (piece,):
                if run.startswith("\b"):
                    self._erase(len(run))
                else:
                    final.append(self._write(run))
        return "".join(final)

    def _write(self, text: str) -> str:
        column, end = self._column, self._column + len(text)
        if end >= self._width:
            row = self._flat()[:column] + text
            whole = end - end % self._width
            self._row = [row[whole:]]
            self._length = self._column = end - whole
            return row[:whole]
        if column == self._length:
            self._row.append(text)
        else:
            row = self._flat()
            self._row = [row[:column], text, row[end:]]
        self._column = end
        self._length = max(self._length, end)
        return ""

    def _erase(self, count: int) -> None:
        count = min(count, self._column)
        row = self._flat()
        column = self._column - count
        self._row = [row[:column] + row[self._column + count :]]
        self._length = len(self._row[0])
        self._column = column

    def _flat(self) -> str:
        if len(self._row) != 1:
            self._row = ["".join(self._row)]
        return self._row[0]


class HeadTail:
    """Keeps the first `head` and the last `tail` characters of a text that only grows.

    Args:
        head: Characters kept from the start.
        tail: Characters kept from the end.
        spill: Gets the text between them, in order, in pieces; the last of it at `close`.
    """

    def __init__(self, *, head: int, tail: int, spill: Callable[[str], None] | None = None) -> None:
        self._head = io.StringIO()
        self._head_room = head
        self._tail = tail
        self._spill = spill
        # The last `tail` characters always lie in these two; a full pair drops its older half at once, which costs
        # nothing per message and never copies the text that has come so far.
        self._older = ""
        self._newer = io.StringIO()
        self._newer_length = 0
        self._dropped = 0

    def append(self, text: str) -> None:
        """Take the next piece."""
        if self._head_room:
            fits = text[: self._head_room]
            self._head.write(fits)
            self._head_room -= len(fits)
            text = text[len(fits) :]
        if not text:
            return
        self._newer.write(text)
        self._newer_length += len(text)
        if self._newer_length >= self._tail:
            self._drop(self._older)
            self._older = self._newer.getvalue()
            self._newer = io.StringIO()
            self._newer_length = 0

    def close(self) -> None:
        """Spill what is left out by now. More text may follow."""
        seen = self._older + self._newer.getvalue()
        excess = max(0, len(seen) - self._tail)
        self._drop(seen[:excess])
        self._older = seen[excess:]
        self._newer = io.StringIO()
        self._newer_length = 0

    @property
    def left_out(self) -> int:
        """Characters that neither the head nor the tail holds."""
        return self._dropped + max(0, len(self._older) + self._newer_length - self._tail)

    def text(self) -> str:
        """The head, then, if anything was left out, a line with its exact count, then the tail."""
        count = self.left_out
        seen = self._older + self._newer.getvalue()
        if not count:
            return self._head.getvalue() + seen
        return self._head.getvalue() + left_out(count) + seen[max(0, len(seen) - self._tail) :]

    def _drop(self, text: str) -> None:
        self._dropped += len(text)
        if text and self._spill is not None:
            self._spill(text)


class Stream:
    r"""One stream output of a cell while it grows."""

    def __init__(self, name: str, *, head: int, tail: int, edits: int, spill: Spill | None = None) -> None:
        self.name = name
        self._bound = head + tail
        self._live = head
        self._fold = LineFold(edits=edits)
        self._kept = HeadTail(head=head, tail=tail, spill=partial(spill, name) if spill else None)
        self._added = 0

    def add(self, text: str) -> str:
        """Take a message's text; return what of it to display live, as it came."""
        live = clean_text(text[: self._live]) if self._live else ""
        self._live -= len(live)
        for start in range(0, len(text), _BLOCK):
            self._append(self._fold.feed(clean_text(text[start : start + _BLOCK])))
        return live

    def close(self) -> None:
        r"""Make the open line final. More text may follow; it begins a new line for `\r` and backspace."""
        self._append(self._fold.flush())
        self._kept.close()

    @property
    def size(self) -> int:
        """Characters that are kept, the open line and the marker aside."""
        return min(self._added, self._bound)

    @property
    def edits(self) -> int:
        r"""How many `\r` and backspaces would still be obeyed."""
        return self._fold.edits

    @property
    def left_out(self) -> int:
        """Characters that are not in the output once it is closed."""
        return max(0, self._added + self._fold.open - self._bound)

    def output(self) -> Output:
        """The nbformat output, up to the last line that is final (see `close`)."""
        return {"output_type": "stream", "name": self.name, "text": self._kept.text()}

    def _append(self, text: str) -> None:
        if text:
            self._added += len(text)
            self._kept.append(text)


class CellStreams:
    r"""All stream outputs of one cell: which one text goes to, and the bounds on them together.

    Text goes to the last output if that is a stream of the same name, else to a new one. When there are
    `limits.streams` of them, or they hold `limits.stream_total` characters, the order of stdout and stderr is given up:
    one last output of each name takes all that follows.

    Attributes:
        all: The outputs in their order.
    """

    def __init__(self, limits: OutputLimits, spill: Spill | None = None) -> None:
        self.all: list[Stream] = []
        self._limits = limits
        self._room = limits.stream_total
        self._edits = limits.edits
        self._spill = spill
        self._open: Stream | None = None
        self._apart: dict[str, Stream] = {}

    def pick(self, name: str, last: object) -> tuple[Stream, bool]:
        """The output that text of stream `name` goes to when the cell's last output is `last`; is it a new one?"""
        if name in self._apart:
            return self._apart[name], False
        if isinstance(last, Stream) and last.name == name and not self._apart:
            return last, False
        self._settle()
        apart = self.apart or len(self.all) >= self._limits.streams or self._room <= 0
        head = min(self._limits.stream_head, self._room // 2 if apart else self._room)
        tail = self._limits.stream_tail if apart else min(self._limits.stream_tail, self._room - head)
        stream = Stream(name, head=head, tail=tail, edits=self._edits, spill=self._spill)
        self.all.append(stream)
        if apart:
            self._apart[name] = stream
        else:
            self._open = stream
        return stream, True

    def close(self) -> None:
        """Make all open lines final."""
        for stream in self.all:
            stream.close()

    def clear(self) -> None:
        """Forget all outputs; the edits that were used stay used."""
        self._settle()
        self._edits = min([self._edits, *(stream.edits for stream in self._apart.values())])
        self._room = self._limits.stream_total
        self.all.clear()
        self._apart.clear()

    @property
    def apart(self) -> bool:
        """Whether the order of stdout and stderr was given up."""
        return bool(self._apart)

    @property
    def left_out(self) -> dict[str, int]:
        """How many characters of each stream were left out; streams that are whole aren't named."""
        counts: dict[str, int] = {}
        for stream in self.all:
            if stream.left_out:
                counts[stream.name] = counts.get(stream.name, 0) + stream.left_out
        return counts

    def _settle(self) -> None:
        if self._open is not None:
            self._open.close()
            self._room -= self._open.size
            self._edits = self._open.edits
            self._open = None
