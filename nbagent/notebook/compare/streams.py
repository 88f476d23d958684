r"""Printed text in several outputs, with lines of the other stream, or figures, between them. Pure.

A progress bar goes back to the beginning of its line by `\r`, and what it had drawn there is gone, but not in an output
that has ended: which states of the bar stay is a matter of time. So the text of a fresh run is cut where the notebook's
is, as far as the run has drawn these very states, in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nbagent.core.events import Event, Output, OutputAdded, OutputsCleared
from nbagent.core.text import joined
from nbagent.kernel.outputs.limits import OutputLimits
from nbagent.kernel.outputs.streams import CellStreams, Stream
from nbagent.notebook.compare.masks import Mask, masked

MOST = 4 * 1024 * 1024
"""Characters that are kept of what a cell prints, as it came; of a cell that prints more, nothing is."""
STEPS = 4_000_000
"""Characters of states that are tried at places of a line."""
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


def as_kept(outputs: Iterable[Output]) -> list[Output]:
    r"""Outputs of a notebook that isn't nbagent's, with printed text as nbagent keeps it.

    nbclient stores each message by itself, and a `\r` in one goes back to the beginning of a line in another; what that
    overwrote is gone, and so is the middle of a long text.
    """
    streams, found = CellStreams(OutputLimits()), list[Output | Stream]()
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
        was, now = (_text(outputs, name) for outputs in both)
        if was != now and (text := _cut_alike(was, now, raw, [*rules])) != now:
            place = next(n for n, each in enumerate(fresh) if _is_of(each, name))
            rest = [each for each in fresh[place:] if not _is_of(each, name)]
            fresh = [*fresh[:place], {**fresh[place], "text": text}, *rest]
    return fresh


def _is_of(output: Output, name: str) -> bool:
    return bool(output["output_type"] == "stream" and output.get("name") == name)


def _text(outputs: Iterable[Output], name: str) -> str:
    return "".join(joined(each.get("text", "")) for each in outputs if _is_of(each, name))


def _cut_alike(stored: str, fresh: str, raw: str, rules: list[Mask]) -> str:
    """The lines of a fresh text, those as they were stored in which nothing was stored but states of the fresh one."""
    lines = [stored.split("\n"), fresh.split("\n"), raw.replace("\r\n", "\n").split("\n")]
    if len({len(each) for each in lines}) > 1:
        return fresh
    found = []
    for was, now, written in zip(*lines, strict=True):
        alike = was == now or "\r" not in written or not all(_is_made_of(each, written, rules) for each in (was, now))
        found.append(now if alike else was)
    return "\n".join(found)


def _is_made_of(line: str, written: str, rules: list[Mask]) -> bool:
    r"""Whether a line consists of the last state of what was written, and of former ones before it, in their order.

    Each goes back by `\r` and overwrites what was there since the last cut, character by character.
    """
    text, seen, steps = masked(line, rules), {"": ""}, 0
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
            if seen[row] and text.startswith(seen[row], at):
                reached.add((at + len(seen[row]), ""))
        paths = reached
    return any(text[at:] == seen[row] for at, row in paths)
