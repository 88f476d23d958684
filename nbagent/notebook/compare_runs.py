"""Compares what each cell of a notebook shows with what it shows in fresh runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from nbagent.core.events import Output
from nbagent.notebook.compare.cell import Comparison, compare
from nbagent.notebook.compare.dates import Moments, zones
from nbagent.notebook.compare.masks import INSTALLED, WORKERS, WROTE
from nbagent.notebook.compare.notes import without_notes
from nbagent.notebook.compare.reads import Code, Reads, changes
from nbagent.notebook.compare.streams import cut_alike
from nbagent.notebook.compare.texts import BY_CHANCE, ORDER, PLAIN, TWICE, Context, Difference, Strictness
from nbagent.notebook.compare.volatile import Processes
from nbagent.notebook.compare.widgets import BY_PAGE, OF_OTHERS, Widgets
from nbagent.notebook.document import Document, DocumentCell
from nbagent.notebook.fresh import Ran
from nbagent.notebook.lock_check import is_same_environment
from nbagent.safety.sanitize.outputs import VIEW_MIME

OTHER_SEED = "it may be of another seed of Python's hashes, which this notebook doesn't name"
BY_MACHINE = "it names the machine, the user or the folder of its run, here a sandbox's"
_OF_SANDBOX = re.compile(r"(?<!\w)(?:sandbox|workspace|tmpfs)(?!\w)|\A'(?:opt|kernel|opt/kernel\b.*)'\Z")
"""Its host and user, the folders in which it works and has its Python, and its file systems."""
_WRITES = re.compile(r"\s*%%(?:writefile|file)\b")
SANDBOX_PROCESSES = 100
"""A kernel whose process has a smaller number runs in a sandbox that numbers its processes from 1."""


def compared(
    document: Document, fresh: Ran, again: Sequence[Ran] = (), *, reads: Mapping[int, Reads], strictness: Strictness
) -> dict[int, Comparison]:
    """What differs, by the number of each cell that has run before and now."""
    found, twice = {}, set[str]()
    first = min((each.at for each in document.cells if each.at is not None), default=0.0)
    state = document.widgets
    runs = [(ran, Widgets(state, ran.models, whole=document.is_ours)) for ran in (fresh, *again)]
    for cell in document.cells:
        if cell.facts.get("installed"):
            twice |= changes(cell.code)
        is_left_out = cell.is_block and document.lock is not None  # it isn't run, so it shows nothing
        if not cell.has_run or not (is_left_out or cell.number in fresh.outputs):
            continue
        shown = [(ran, each) for ran, each in runs if ran is fresh or cell.number in ran.outputs]
        early = (cell.at or 0.0) - first
        context = context_of(document, cell, fresh, reads=reads[cell.number], strictness=strictness, early=early)
        apart = partial(_apart, document, cell, context=context, strictness=strictness)
        found[cell.number] = apart(shown)
        if found[cell.number].differences and cell.number in fresh.ended:
            ended = apart([(replace(ran, outputs=ran.outputs | ran.ended), each) for ran, each in shown])
            found[cell.number] = found[cell.number] if ended.differences or ended.pictures else ended
        if len(shown) > 1:
            told = found[cell.number].differences
            has_view = any(VIEW_MIME in each.get("data", {}) for each in cell.outputs)
            found[cell.number].differences = [_by_page(each, has_view=has_view) for each in told]
        if document.lock is None:
            told = found[cell.number].differences
            found[cell.number].differences = [_by_machine(each) for each in told]
        if len(shown) > 1 and twice & set(re.findall(r"\w+", cell.code)):
            told = found[cell.number].differences
            found[cell.number].differences = [each if each.cause else each._replace(cause=TWICE) for each in told]
    return found


def _apart(
    document: Document,
    cell: DocumentCell,
    shown: Sequence[tuple[Ran, Widgets]],
    *,
    context: Context,
    strictness: Strictness,
) -> Comparison:
    """What differs between a cell's outputs and those of the first run, by what further runs show."""
    pairs = [paired(document, cell, ran, each, strictness=strictness) for ran, each in shown]
    return compare(*pairs[0], context, again=[each for _, each in pairs[1:]])


def name_seed(
    found: Mapping[int, Comparison],
    one_seed: Mapping[int, Comparison],
    seeded: Mapping[int, Comparison],
    reads: Mapping[int, Reads],
) -> None:
    """Name the seed of hashes as the cause of what no run explains, if it also differs between runs with two seeds.

    Args:
        found: What differs, which gets the causes.
        one_seed: What differs from runs with one seed, whatever a run of the notebook's day says of it.
        seeded: What differs from these and one with another seed.
        reads: What each cell reads: those with one seed agree by chance on what is drawn at random.
    """
    for number, each in found.items():
        others, why = seeded[number], BY_CHANCE if reads[number].random else OTHER_SEED
        changed = {*one_seed[number].differences} - {*others.differences}
        drawn = {pair.what for pair in others.pictures if pair.again}
        each.differences = [
            one._replace(cause=why) if one.cause in ("", ORDER) and one in changed else one for one in each.differences
        ]
        each.pictures = [
            pair._replace(cause=why) if pair.what in drawn and not pair.again else pair for pair in each.pictures
        ]


def _by_page(found: Difference, *, has_view: bool) -> Difference:
    """What differs in a widget that a page may have changed before the notebook was saved.

    That is, in one of another program, or in what a page tells an Output widget of its outputs.
    """
    is_output = has_view and found.what.endswith(f", {PLAIN}") and found.stored[1:].startswith("outputs=(")
    is_set = f", {OF_OTHERS}" in found.what or is_output
    return found._replace(cause=BY_PAGE) if not found.cause and is_set else found


def _by_machine(found: Difference) -> Difference:
    """What names the machine, in a notebook that doesn't say on which one it ran."""
    return found._replace(cause=BY_MACHINE) if not found.cause and _OF_SANDBOX.search(found.fresh) else found


def paired(
    document: Document, cell: DocumentCell, ran: Ran, widgets: Widgets, *, strictness: Strictness
) -> tuple[list[Output], list[Output]]:
    """What a cell shows in the notebook and in a fresh run, as the two are compared; `widgets` are those of both."""
    saved = ran.saved.get(cell.number, frozenset())
    ended = ran.cells.get(cell.number)
    ran_out = ended is not None and "ran out of memory" in ended.note
    shown = document.comparable(cell)
    stored = [*without_notes(shown, versions=ran.versions, saved=saved, ran_out=ran_out)]
    fresh = ran.outputs.get(cell.number, [])
    if cell.installs:
        stored, fresh = ([each for each in outputs if each["output_type"] != "stream"] for outputs in (stored, fresh))
    fresh = cut_alike(stored, fresh, ran.printed.get(cell.number, {}), strictness.masks)
    return widgets.with_state(stored, fresh)


def context_of(
    document: Document, cell: DocumentCell, fresh: Ran, *, reads: Reads, strictness: Strictness, early: float
) -> Context:
    """What is known of a cell; `early` are the seconds from the notebook's first cell to this one."""
    same = is_same_environment(document.lock, fresh)
    began, elapsed = fresh.moments.get(cell.number, (0.0, 0.0))
    moments = Moments(stored=cell.at, fresh=began, elapsed=elapsed, early=early)
    if document.lock and not reads.zoned:
        known = zones(document.lock.machine.get("time_zone"), [cell.at or began, began])
        moments = replace(moments, zones=known)
    masks = [
        *strictness.masks,
        *([INSTALLED] if cell.also_installs else []),
        *([WORKERS] if reads.ident or reads.concurrent else []),
        *([WROTE] if _WRITES.match(cell.code) else []),
    ]
    # A sandbox's kernel has the same small number each time, which a result may be, too.
    kernel = 0 if same and fresh.process < SANDBOX_PROCESSES else fresh.process
    return Context(
        moments=moments,
        reads=reads,
        processes=Processes(kernel, fresh.process),
        strictness=replace(strictness, masks=masks),
        # A cell that missed a module went on at its import.
        same_programs=same and not cell.facts.get("installed"),
    )


def all_reads(document: Document) -> dict[int, Reads]:
    """What each cell reads, by its number."""
    code = Code()
    return {cell.number: code.take(cell.code) for cell in document.cells}
