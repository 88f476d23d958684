"""Leaves out of a notebook the attempts that failed or were superseded, and proves by a run that the rest is whole."""

from __future__ import annotations

import ast
import copy
import difflib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Set
from typing import Any, NamedTuple

from nbagent.notebook import document
from nbagent.notebook.document import Document
from nbagent.notebook.lock import nodes
from nbagent.notebook.proof import Proof

SUPERSEDED = "superseded"
"""The tag of a cell that the model replaced by a better one."""
ALIKE = 0.8
"""The likeness of two sources, from 0 to 1, from which on the second replaces the first."""
_LINK = re.compile(r"\[cell (\d+)\](?=\(#cell-id=(cell-\d+)\))")
LONGEST = 10_000
"""Characters of a source that is held against another one: the time is square in them."""
Verify = Callable[[Document], Awaitable[Proof]]
"""Verifies a notebook, in the sandbox of the session that it is of."""


class Folded(NamedTuple):
    """What came of it.

    Attributes:
        notebook: The notebook without its failed and superseded attempts, or as it was.
        left_out: How many attempts were left out.
        why_not: Why they were not, in a sentence.
    """

    notebook: Any
    left_out: int = 0
    why_not: str = ""


async def fold(notebook: Any, verify: Verify) -> Folded:
    """Leave out the model's failed and superseded attempts, with what it said before each.

    Args:
        notebook: As `export.build` makes it.
        verify: Runs the rest: whatever of it differs without them needs them.
    """
    cited = _cited(notebook)
    failed = {cell["id"] for cell in notebook["cells"] if _is_attempt(cell)} - cited
    superseded = _superseded(notebook["cells"]) - cited - failed
    folded = Folded(notebook)
    # Where the rest needs a superseded cell, at least those that failed may go.
    for dropped in dict.fromkeys((frozenset(failed | superseded), frozenset(failed))):
        if dropped and not (folded := await _fold(notebook, dropped, verify)).why_not:
            return folded
    return folded if failed else Folded(notebook)


async def _fold(notebook: Any, dropped: Set[str], verify: Verify) -> Folded:
    rest = copy.deepcopy(notebook)
    rest["cells"] = _without(rest["cells"], dropped)
    _count(rest["cells"])
    found = document.parse(json.dumps(rest), name="the rest")
    proof = await verify(found)
    if proof.error:
        return Folded(notebook, why_not=f"The rest could not be run: {proof.error}")
    for cell in proof.cells:
        # What differs with every run does so with the attempts, too.
        if real := [each for each in cell.differences if not each.is_unstable]:
            return Folded(notebook, why_not=f"Without them {cell.id} is another one: {real[0]}.")
    return Folded(rest, len(dropped))


def tag_superseded(notebook: Any) -> None:
    """Tag the cells that the model replaced by better ones, for a notebook that keeps them."""
    superseded = _superseded(notebook["cells"])
    for cell in notebook["cells"]:
        if cell["id"] in superseded:
            cell["metadata"]["tags"] = [*cell["metadata"].get("tags", []), SUPERSEDED]


def _is_attempt(cell: Any) -> bool:
    """Whether a cell is one of the model's that failed or had to be stopped."""
    facts = cell["metadata"].get("nbagent", {})
    return bool(facts.get("turn")) and (facts.get("role") == "stopped" or facts.get("status") == "error")


def _superseded(cells: list[Any]) -> set[str]:
    """The model's cells that its next successful one in the same turn replaces.

    Such a cell says nearly the same, sets each name that the first one sets, and shows something as the first one does.
    """
    found, last = set(), None
    for cell in cells:
        facts = cell["metadata"].get("nbagent", {})
        if facts.get("role") in ("question", "answer"):
            last = None
        if facts.get("status") != "ok" or not facts.get("turn"):
            continue
        if last is not None and _replaces(cell, last):
            found.add(last["id"])
        last = cell
    return found


def _replaces(cell: Any, former: Any) -> bool:
    sources = [str(each["source"]) for each in (former, cell)]
    if not former["outputs"] or not cell["outputs"] or max(map(len, sources)) > LONGEST:
        return False
    bound = [{name for node in nodes(each) for name in _names(node)} for each in sources]
    shapes = [[output["output_type"] for output in each["outputs"]] for each in (former, cell)]
    likeness = difflib.SequenceMatcher(None, sources[0], sources[1], autojunk=False).ratio()
    return bound[0] <= bound[1] and shapes[0] == shapes[1] and likeness >= ALIKE


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a piece of syntax sets or imports."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]


def _cited(notebook: Any) -> set[str]:
    """The cells in which a number of an answer stands."""
    facts = [cell["metadata"].get("nbagent", {}) for cell in notebook["cells"]]
    return {
        f"cell-{cell}"
        for each in facts
        for claim in each.get("claims", ())
        if claim.get("supported", True)
        for cell in (claim["cell"], *claim.get("sources", ()))
    }


def _without(cells: list[Any], dropped: Set[str]) -> list[Any]:
    """The cells without these, and without the remark and the source of a tool before each."""
    kept: list[Any] = []
    for cell in cells:
        if cell["id"] not in dropped:
            kept.append(cell)
            continue
        for role in ("tool", "remark"):
            if kept and kept[-1]["metadata"].get("nbagent", {}).get("role") == role:
                kept.pop()
    return kept


def _count(cells: list[Any]) -> None:
    """Number the cells anew, as a run from the top does, and have answers name them so."""
    number, numbers = 0, {}
    for cell in cells:
        if cell["cell_type"] == "code" and cell["execution_count"] is not None:
            number += 1
            cell["execution_count"] = numbers[cell["id"]] = number
            for output in cell["outputs"]:
                if "execution_count" in output:
                    output["execution_count"] = number
    for cell in cells:
        if cell["metadata"].get("nbagent", {}).get("role") == "answer":
            cell["source"] = _LINK.sub(lambda found: f"[cell {numbers.get(found[2], found[1])}]", cell["source"])
