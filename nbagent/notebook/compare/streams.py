r"""Printed text in several outputs, with lines of the other stream, or figures, between them. Pure.

A progress bar goes back to the beginning of its line by `\r`, and what it had drawn there is gone, but not in an output
that has ended: which states of the bar stay is a matter of time. So the text of a fresh run is cut where the notebook's
is, as far as the run has drawn these very states, in this order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import accumulate

from nbagent.core.events import Event, Output, OutputAdded, OutputsCleared
from nbagent.core.text import joined
from nbagent.kernel.outputs.limits import OutputLimits
from nbagent.kernel.outputs.streams import CellStreams, Stream
from nbagent.notebook.compare.masks import Mask, masked

MOST = 4 * 1024 * 1024
"""Characters that are kept of what a cell prints, as it came; of a cell that prints more, nothing is."""
STEPS = 4_000_000
"""Characters of states that are tried at places of a line."""
USUAL = OutputLimits()
WHOLE = OutputLimits(stream_head=sys.maxsize, stream_total=sys.maxsize, streams=sys.maxsize)
"""No limits: the text was cut to them when it was recorded."""
LONGEST_ROW = 10_000
"""Characters of a line's state."""


class Printed:
    r"""What cells print as it comes, with what a `\r` overwrites later."""

    def __init__(self) -> None:
        self._cells: dict[int, dict[str, list[str]]] = {}
        self._sizes: dict[int, int] = {}

    def on_event(self, event: Event) -> None:
        """Take in what happened next."""
        match event:
            case OutputAdded(cell=cell, output={"output_type": "stream", "name": str(name), "text": str(text)}):
                self._sizes[cell] = self._sizes.get(cell, 0) + len(text)
                if self._sizes[cell] <= MOST:
                    self._cells.setdefault(cell, {}).setdefault(name, []).append(text)
                else:
                    self._cells.pop(cell, None)
            case OutputsCleared(cell=cell):
                self._cells.pop(cell, None)

    def of(self, cell: int) -> dict[str, str]:
        """The text of each stream of a cell."""
        return {name: "".join(parts) for name, parts in self._cells.get(cell, {}).items()}


def as_kept(outputs: Iterable[Output], limits: OutputLimits = USUAL) -> list[Output]:
    r"""Outputs of a notebook, with printed text as nbagent keeps it, and as pages show it.

    nbclient stores each message by itself, and a `\r` in one goes back to the beginning of a line in another; what that
    overwrote is gone, and so is the middle of a long text.
    """
    streams, found = CellStreams(limits), list[Output | Stream]()
    for each in outputs:
        if each["output_type"] != "stream":
            found.append(each)
            continue
        stream, is_new = streams.pick(str(each.get("name", "stdout")), found[-1] if found else None)
        found += [stream] if is_new else []
        stream.add(joined(each.get("text", "")))
    streams.close()
    return [each.output() if isinstance(each, Stream) else each for each in found]


def cut_alike(
    stored: Iterable[Output], fresh: list[Output], printed: Mapping[str, str], rules: Iterable[Mask] = ()
) -> list[Output]:
    """The outputs of a fresh run, with printed text cut where the notebook's is, if the run could have been cut so.

    Args:
        stored: The outputs that a notebook has.
        fresh: Those of a fresh run.
        printed: What that one printed as it came, by the name of the stream.
        rules: A person's own masks.
    """
    both = [each for each in stored if each["output_type"] == "stream"], fresh
    for name, raw in printed.items():
        if "\r" not in raw:
            continue
        was, now = (_texts(outputs, name) for outputs in both)
        if was != now and (text := _cut_alike(was, now, raw, [*rules])) != "".join(now):
            place = next(n for n, each in enumerate(fresh) if _is_of(each, name))
            rest = [each for each in fresh[place:] if not _is_of(each, name)]
            fresh = [*fresh[:place], {**fresh[place], "text": text}, *rest]
    return fresh


def _is_of(output: Output, name: str) -> bool:
    return bool(output["output_type"] == "stream" and output.get("name") == name)


def _texts(outputs: Iterable[Output], name: str) -> list[str]:
    return [joined(each.get("text", "")) for each in outputs if _is_of(each, name)]


def _lines(texts: list[str]) -> list[list[str]]:
    """The lines of text in several outputs, each as the parts of it that stand in one output."""
    found = [[""]]
    for text in texts:
        first, *more = text.split("\n")
        found[-1].append(first)
        found += [[each] for each in more]
    return found


def _cut_alike(stored: list[str], fresh: list[str], raw: str, rules: list[Mask]) -> str:
    """The lines of a fresh text, those as they were stored in which nothing was stored but states of the fresh one."""
    one, other, drawn = _lines(stored), _lines(fresh), raw.replace("\r\n", "\n").split("\n")
    if not len(one) == len(other) == len(drawn):
        return "".join(fresh)
    found = []
    for was, now, written in zip(one, other, drawn, strict=True):
        alike = "".join(was) == "".join(now) or "\r" not in written
        alike = alike or not all(_is_made_of(each, written, rules) for each in (was, now))
        found.append("".join(now if alike else was))
    return "\n".join(found)


def _is_made_of(parts: list[str], written: str, rules: list[Mask]) -> bool:
    r"""Whether a line consists of the last state of what was written, and of former ones before it, in their order.

    Each goes back by `\r` and overwrites what was there since the last cut, character by character. A cut is where an
    output ends, unless there are bars: of those next to each other, a mask leaves the last.
    """
    text, seen, steps = masked("".join(parts), rules), {"": ""}, 0
    apart = [masked(each, rules) for each in parts]
    cuts = {*accumulate(map(len, apart))} if "".join(apart) == text else range(len(text) + 1)
    paths = {(0, "")}
    for state in written.split("\r"):
        reached = set()
        longest = max(len(state), *(len(row) for _, row in paths))
        if longest > LONGEST_ROW or (steps := steps + len(paths) * (longest + 1)) > STEPS:
            return False
        for at, row in paths:
            row = state + row[len(state) :]
            reached.add((at, row))
            if row not in seen:
                seen[row] = masked(row, rules)
            if seen[row] and at + len(seen[row]) in cuts and text.startswith(seen[row], at):
                reached.add((at + len(seen[row]), ""))
        paths = reached
    return any(text[at:] == seen[row] for at, row in paths)
