"""Leaves out of a notebook the attempts that failed, and proves by a run that the rest does not need them."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from nbagent.notebook import document
from nbagent.notebook.compare.cell import EVERY_RUN, NO_SEED
from nbagent.notebook.document import Document
from nbagent.notebook.proof import Proof

Verify = Callable[[Document], Awaitable[Proof]]
"""Verifies a notebook, in the sandbox of the session that it is of."""


class Folded(NamedTuple):
    """What came of it.

    Attributes:
        notebook: The notebook without its failed attempts, or as it was.
        left_out: How many attempts were left out.
        why_not: Why they were not, in a sentence.
    """

    notebook: Any
    left_out: int = 0
    why_not: str = ""


async def fold(notebook: Any, verify: Verify) -> Folded:
    """Leave out the model's failed attempts, with what it said before each.

    Args:
        notebook: As `export.build` makes it.
        verify: Runs the rest: whatever of it differs without them needs them.
    """
    failed = {cell["id"] for cell in notebook["cells"] if _is_attempt(cell)} - _cited(notebook)
    if not failed:
        return Folded(notebook)
    rest = copy.deepcopy(notebook)
    rest["cells"] = _without(rest["cells"], failed)
    _count(rest["cells"])
    found = document.parse(json.dumps(rest), name="the rest")
    proof = await verify(found)
    if proof.error:
        return Folded(notebook, why_not=f"The rest could not be run: {proof.error}")
    for cell in proof.cells:
        # What differs with every run does so with the attempts, too.
        if real := [each for each in cell.differences if each.cause not in (EVERY_RUN, NO_SEED)]:
            return Folded(notebook, why_not=f"Without them {cell.id} is another one: {real[0]}.")
    return Folded(rest, len(failed))


def _is_attempt(cell: Any) -> bool:
    """Whether a cell is one of the model's that failed or had to be stopped."""
    facts = cell["metadata"].get("nbagent", {})
    return bool(facts.get("turn")) and (facts.get("role") == "stopped" or facts.get("status") == "error")


def _cited(notebook: Any) -> set[str]:
    """The cells in which a number of an answer stands."""
    facts = [cell["metadata"].get("nbagent", {}) for cell in notebook["cells"]]
    return {f"cell-{claim['cell']}" for each in facts for claim in each.get("claims", ())}


def _without(cells: list[Any], failed: set[str]) -> list[Any]:
    """The cells without these, and without the remark before each."""
    kept: list[Any] = []
    for cell in cells:
        if cell["id"] not in failed:
            kept.append(cell)
        elif kept and kept[-1]["metadata"].get("nbagent", {}).get("role") == "remark":
            kept.pop()
    return kept


def _count(cells: list[Any]) -> None:
    """Number the cells anew, as a run from the top does."""
    number = 0
    for cell in cells:
        if cell["cell_type"] == "code" and cell["execution_count"] is not None:
            number += 1
            cell["execution_count"] = number
            for output in cell["outputs"]:
                if "execution_count" in output:
                    output["execution_count"] = number
