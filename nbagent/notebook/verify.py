"""Verifies a notebook: runs its cells in a fresh sandbox, in the environment of its lock, and compares what they show.

    verification = Verification(document, engine=engine, spec=spec)
    proof = await verification.run()

Where something differs, a second fresh run tells what would differ in any case: what two fresh runs agree on and the
notebook doesn't, was changed. Where code reads a clock, two runs may agree by chance, so a third one decides.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from nbagent.core.concurrency import in_thread
from nbagent.core.errors import NbagentError
from nbagent.core.events import Output
from nbagent.core.text import one_line
from nbagent.kernel.kernel import Kernel
from nbagent.notebook import lock_check, sweep
from nbagent.notebook.compare.cell import Comparison, Pair, compare, pieces
from nbagent.notebook.compare.dates import Moments
from nbagent.notebook.compare.pictures import Pictures
from nbagent.notebook.compare.texts import EVERY_RUN, MEASURED, MOST, ORDER, Context, Difference, Strictness, cause
from nbagent.notebook.compare.widgets import Widgets
from nbagent.notebook.compare_runs import all_reads, compared, context_of, name_seed, paired
from nbagent.notebook.document import Document, DocumentCell
from nbagent.notebook.fresh import RUNS_ON, FreshRuns, Ran
from nbagent.notebook.lock import Lock
from nbagent.notebook.lock_check import is_same_environment
from nbagent.notebook.proof import CellProof, Proof
from nbagent.safety.sanitize.outputs import SVG
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

LONG_AGO = 405 * 86_400 + 5 * 3_600 + 7 * 60 + 11
"""How far back another run's clock is set, in seconds: each part of the moment, year to second, is another then."""
EDITED = "edited since nbagent wrote it"


class Verification:
    """The verification of one notebook.

    Args:
        document: The notebook.
        engine: What isolates it.
        spec: Its sandbox, with its data.
        strictness: How outputs are compared.
        problems: What differs already, such as its data.
        tell: Called with the number of cells that have run, of how many.
    """

    def __init__(
        self,
        document: Document,
        *,
        engine: Engine,
        spec: SandboxSpec,
        strictness: Strictness | None = None,
        problems: Sequence[str] = (),
        tell: Callable[[int, int], object] = lambda _done, _all: None,
    ) -> None:
        self._document = document
        self._engine = engine
        self._runs = FreshRuns(document, engine=engine, spec=spec, tell=tell)
        self._strictness = strictness or Strictness()
        self._reads = all_reads(document)
        self._past: list[Ran] = []
        self.proof = Proof(
            name=document.name,
            engine=engine.name,
            started=time.time(),
            problems=[*problems, *document.edits, *lock_check.problems(document)],
        )

    @property
    def _lock(self) -> Lock | None:
        return self._document.lock

    # -- the whole ------------------------------------------------------------------------------------------------

    async def run(self, *, sweeps: bool = False) -> Proof:
        """Run it, compare it, and run it once more if something differs.

        Args:
            sweeps: Whether it runs on other terms too, to find what its cells depend on.
        """
        started = time.monotonic()
        try:
            await self._run(sweeps=sweeps)
        except NbagentError as error:
            self.proof.result, self.proof.error = "not run", str(error)
            edited = (each for each in self._document.cells if each.is_edited)
            self.proof.cells = [
                CellProof(id=each.id, number=each.number, result="not run", note=EDITED) for each in edited
            ]
        self.proof.seconds = time.monotonic() - started
        self.proof.runs, self.proof.cell_seconds = self._runs.count, self._runs.seconds
        return self.proof

    async def _run(self, *, sweeps: bool) -> None:
        proof, again = self.proof, list[Ran]()
        fresh = await self._runs.once()
        proof.problems += lock_check.package_problems(self._lock, fresh)
        proof.notes += lock_check.notes(self._document, fresh)
        found = await self._compare(fresh, again)
        if sweeps or any(each.differences or each.pictures for each in found.values()):
            again.append(await self._once_more(fresh))
            found = await self._compare(fresh, again, dates=True)
        if any(self._is_doubtful(number, each) for number, each in found.items()):
            again.append(await self._once_more(fresh))
            found = await self._compare(fresh, again, dates=True)
        if self._lock is None and any(map(_is_unexplained, found.values())):
            seeded = await self._runs.once(sweep.OTHER_HASHES.variables)
            others = await self._compare(fresh, [*again, seeded])
            one_seed = await self._compare(fresh, again)
            seeds = [n for n, each in one_seed.items() if each.differences != others[n].differences]
            if any(self._is_doubtful(n, found[n]) for n in seeds):
                # As when a minute has ended since: what a run with the first seed shows by now isn't of the other one.
                again.append(await self._once_more(fresh))
                found, one_seed = await self._compare(fresh, again, dates=True), await self._compare(fresh, again)
            name_seed(found, one_seed, others, self._reads)
        async with Pictures(self._engine) as pictures:
            for cell in self._document.cells:
                proof.cells.append(await self._judge(cell, fresh, found.get(cell.number), pictures))
        if sweeps:
            await self._sweep(fresh, again[0])
        if proof.problems or any(each.result != "same" for each in proof.cells):
            proof.result = "differs"

    async def _run_in_the_past(self, fresh: Ran, number: int = 0) -> Ran:
        """A run whose clock shows the times of the notebook: all fresh runs agree on a date, and often on a minute.

        Args:
            fresh: The first fresh run.
            number: 0 for the first run of this kind, 1 for a second one.
        """
        while len(self._past) <= number:
            cells = {each.number: each.at for each in self._document.cells if each.number in fresh.cells}
            # Of a notebook that names no moments, at one of which each part is another.
            moments = [fresh.moments[n][0] - LONG_AGO if at is None else at for n, at in cells.items()]

            async def set_clock(kernel: Kernel, moments: Sequence[object] = moments) -> bool:
                return await kernel.evaluate(sweep.PAST, [moments]) is True

            ran = await self._runs.once(first=set_clock)
            ran.moments |= {n: (at, ran.moments[n][1]) for n, at in cells.items() if at and n in ran.moments}
            self._past.append(ran)
        return self._past[number]

    async def _once_more(self, fresh: Ran) -> Ran:
        """A further run; a second attempt if it ended early, as on a busy machine: that says nothing of later cells."""
        ran = await self._runs.once()
        return ran if ran.outputs.keys() >= fresh.outputs.keys() else await self._runs.once()

    def _is_doubtful(self, number: int, found: Comparison) -> bool:
        """Whether two fresh runs may agree by chance on what differs."""
        reads = self._reads[number]
        return (reads.is_volatile or reads.concurrent) and _is_unexplained(found)

    async def _sweep(self, fresh: Ran, again: Ran) -> None:
        """Find the cells that depend on the machine, by runs on other terms, each compared with the first one."""
        known = {each.number: each for each in self.proof.cells}
        async with Pictures(self._engine) as pictures:
            for each in sweep.terms(fresh.features):
                other = await self._runs.once(each.variables)
                found = await self._apart(other, fresh, again, pictures)
                causes: set[int] = set()
                if found and each.sorts:
                    # With stable sorts on both terms: what is the same then differed by the order of equal values.
                    stable = [await self._runs.once(more, stable=True) for more in ((), each.variables)]
                    causes = found - await self._apart(stable[1], stable[0], stable[0], pictures)
                for number in sorted(found):
                    known[number].depends.append(f"{each.name}{': unstable sort' if number in causes else ''}")

    async def _apart(self, other: Ran, fresh: Ran, again: Ran, pictures: Pictures) -> set[int]:
        """The cells that show something else in a run than in two that agree with each other."""
        found = set()
        for cell in self._document.cells:
            one, two = other.outputs.get(cell.number), fresh.outputs.get(cell.number)
            if cell.installs or two is None:
                continue
            moments = Moments(other.moments.get(cell.number, (0.0, 0.0))[0], *fresh.moments[cell.number])
            reads = self._reads[cell.number]
            context = Context(moments=moments, reads=reads, strictness=self._strictness, ordered=True)
            further = [again.outputs.get(cell.number, [])]
            compared = await in_thread(partial(compare, one or [], two, context, again=further))
            differs = any(not each.is_unstable for each in compared.differences)
            for pair in compared.pictures:
                likeness = await pictures.compare(pair.stored, pair.fresh, exact=True)
                differs |= not likeness.same and not pair.again
            if differs:
                found.add(cell.number)
        return found

    # -- cells ----------------------------------------------------------------------------------------------------

    async def _compare(self, fresh: Ran, again: Sequence[Ran], *, dates: bool = False) -> dict[int, Comparison]:
        """What differs, cell by cell; with `dates` without what tells when the notebook was made."""
        work = partial(compared, self._document, fresh, again, reads=self._reads, strictness=self._strictness)
        found = await in_thread(work)
        for cell in self._document.cells if dates else ():
            if cell.number in found and self._may_be_dated(cell, found[cell.number]):
                await self._leave_out_dates(cell, found[cell.number], fresh)
        return found

    def _may_be_dated(self, cell: DocumentCell, found: Comparison) -> bool:
        """Whether what differs may follow from the clock, and no further run has shown that it is drawn at random."""
        told = [each for each in found.differences if each.cause in ("", MEASURED, ORDER, EVERY_RUN)]
        if not self._reads[cell.number].clock:  # libraries time themselves, and tell moments in figures of their own
            return any(map(_has_digits, told))
        return bool(told) or found.is_cut or any(SVG in each.what for each in found.differences)

    async def _judge(self, cell: DocumentCell, fresh: Ran, found: Comparison | None, pictures: Pictures) -> CellProof:
        proof = CellProof(id=cell.id, number=cell.number)
        ran = fresh.cells.get(cell.number)
        if ran is not None:
            proof.seconds = ran.duration
        elif not (cell.is_block and self._lock is not None):
            proof.result, proof.note = "not run", "a cell before it ended the run"
        if found is not None:
            proof.differences = [*found.differences]
            for pair in found.pictures:
                await self._judge_picture(pair, proof, found, fresh, pictures)
            proof.excused = sorted(found.excused)
        if proof.differences:
            proof.result = "differs"
        if ran is not None and ran.status not in RUNS_ON:
            proof.result, proof.note = "differs", ran.note or f"It ended with {ran.status}."
        elif ran is not None and (was := cell.facts.get("status", ran.status)) != ran.status:
            proof.result = "differs"
            proof.note = f"It ended with {ran.status}, and the notebook says {one_line(str(was), 40)}."
        if cell.is_edited:
            proof.result, proof.note = "differs", EDITED
        return proof

    async def _judge_picture(
        self, pair: Pair, proof: CellProof, found: Comparison, fresh: Ran, pictures: Pictures
    ) -> None:
        exact = is_same_environment(self._lock, fresh)
        seen = await pictures.compare(pair.stored, pair.fresh, *pair.again, exact=exact)
        reads = self._reads[proof.number]
        excusable = reads.is_volatile and not reads.shows_samples
        if seen.same:
            proof.note = proof.note if exact else f"{pair.what}: {seen.told}"
        elif pair.again and seen.is_within and excusable:
            # It differs where two fresh runs differ, since it shows what a clock said, or an id.
            found.excused.add("timing" if reads.clock else "id")
        elif reads.clock and (why := await self._told_time(pair, proof.number, fresh, pictures, excusable)):
            found.excused.add(why)
        else:
            why = cause(reads, again=bool(pair.again)) or pair.cause
            proof.differences.append(Difference(pair.what, f"{pair.mime}: {seen.told}", "", "", why))
            proof.pictures += [seen.shown] if seen.shown else []

    async def _leave_out_dates(self, cell: DocumentCell, found: Comparison, fresh: Ran) -> None:
        """Drop each difference that is gone in a run whose clock shows the notebook's own time."""
        past = await self._run_in_the_past(fresh)
        if cell.number not in past.outputs:
            return
        reads, ran = self._reads[cell.number], past if cell.at is not None else fresh
        context = context_of(self._document, cell, ran, reads=reads, strictness=self._strictness, early=0.0)
        stored, former = await in_thread(partial(self._shown, cell, ran))
        # Whole: what is not compared would be taken for what agrees.
        work = partial(compare, stored, former, context, most=sys.maxsize)
        then = await in_thread(work)
        if then.differences:  # a duration, say, in which two runs of that day differ, too
            later = await self._run_in_the_past(fresh, 1) if ran is past else past
            _, again = await in_thread(partial(self._shown, cell, later))
            then = await in_thread(partial(work, again=[again]))
        before = len(found.differences)
        if found.is_cut:  # of the rest nothing else is known
            found.differences, found.pictures = then.differences[:MOST], then.pictures
        else:
            found.differences = _of_that_day(found.differences, then.differences)
        if len(found.differences) < before:
            found.excused.add("date")

    def _shown(self, cell: DocumentCell, ran: Ran) -> tuple[list[Output], list[Output]]:
        widgets = Widgets(self._document.widgets, ran.models, whole=self._document.is_ours)
        return paired(self._document, cell, ran, widgets, strictness=self._strictness)

    async def _told_time(self, pair: Pair, number: int, fresh: Ran, pictures: Pictures, excusable: bool) -> str:
        """Why a figure is another one, in a word, if it shows when it was drawn, or how long something took."""
        exact = is_same_environment(self._lock, fresh)
        former = pieces((await self._run_in_the_past(fresh)).outputs.get(number, ())).get((pair.what, pair.mime))
        if former is None:
            return ""
        if (await pictures.compare(pair.stored, former, exact=exact)).same:
            return "date"
        if not pair.again or not excusable:
            return ""
        seen = await pictures.compare(pair.stored, pair.fresh, *pair.again, former, exact=exact)
        return "timing" if seen.is_within else ""


def _has_digits(each: Difference) -> bool:
    """Whether both sides do, as times have, however they are written."""
    return all(any(map(str.isdecimal, side)) for side in (each.stored, each.fresh))


def _of_that_day(found: Sequence[Difference], then: Sequence[Difference]) -> list[Difference]:
    """The findings that a run of the notebook's day confirms; for an output that has none of them, that run's own."""
    known = {(each.what, each.where, each.stored) for each in then}
    kept = [each for each in found if (each.what, each.where, each.stored) in known]
    others = {each.what for each in found} - {each.what for each in kept}
    return [*kept, *(each for each in then if each.what in others)]


def _is_unexplained(found: Comparison) -> bool:
    """Whether fresh runs agree on something that differs from the notebook."""
    return any(each.cause in ("", MEASURED, ORDER) for each in found.differences)
