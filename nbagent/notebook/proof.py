"""Verifies a notebook: runs its cells in a fresh sandbox, in the environment of its lock, and compares what they show.

    verification = Verification(document, engine=engine, spec=spec)
    proof = await verification.run()

Where something differs, a second fresh run tells what would differ in any case: what two fresh runs agree on and the
notebook doesn't, was changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from nbagent.core.errors import NbagentError
from nbagent.core.events import Cell, Event, Output, Package, Record
from nbagent.kernel.kernel import Kernel
from nbagent.notebook import sweep
from nbagent.notebook.compare.cell import EVERY_RUN, NO_SEED, Comparison, Context, Difference, Strictness, compare
from nbagent.notebook.compare.pictures import Pictures
from nbagent.notebook.compare.volatile import Code, Moments, Reads
from nbagent.notebook.document import Document, DocumentCell
from nbagent.notebook.lock import Lock
from nbagent.notebook.record import Recording
from nbagent.notebook.shown import shown
from nbagent.packages.requirements import script_requirements
from nbagent.packages.wheels import KERNEL_MODULES
from nbagent.safety.sanitize import clean_output
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec

Result = Literal["same", "differs", "not run"]
RUNS_ON = frozenset({"ok", "error"})
"""Ends of a cell after which the next one finds its variables."""
_LINKS = """
def main(folder):
    import os
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if not os.path.lexists(name):
            os.symlink(os.path.join(folder, name), name)
"""
"""Lets a notebook that isn't nbagent's find its data by plain names, as it did where it was written."""


@dataclass(kw_only=True)
class CellProof:
    """What became of one cell.

    Attributes:
        id: Its name in the notebook.
        number: Its place among the code cells, from 1.
        result: Whether it shows the same.
        differences: What differs.
        note: What else must be known, such as that it was edited.
        excused: What differs and is no change: `date`, `timing`, `id`.
        pictures: PNG files that show what differs in its figures.
        seconds: How long it took.
        depends: What of a machine it depends on, as a sweep found.
    """

    id: str
    number: int
    result: Result = "same"
    differences: list[Difference] = field(default_factory=list)
    note: str = ""
    excused: list[str] = field(default_factory=list)
    pictures: list[bytes] = field(default_factory=list)
    seconds: float = 0.0
    depends: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Proof:
    """What became of a notebook.

    Attributes:
        name: What it is called.
        result: `same`; `differs`, if anything in it does; `not run`, if it could not be run.
        problems: What differs beside the outputs: its lock, its data.
        notes: What is different here from where it was made.
        cells: Its code cells.
        error: Why it could not be run.
        engine: What isolated it.
        started: When, in seconds since the epoch.
        seconds: How long the verification took, and of these the cells.
        runs: How often its cells ran.
    """

    name: str
    result: Result = "same"
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cells: list[CellProof] = field(default_factory=list)
    error: str = ""
    engine: str = ""
    started: float = 0.0
    seconds: float = 0.0
    cell_seconds: float = 0.0
    runs: int = 0

    @property
    def exit_code(self) -> int:
        """0 for the same, 1 if it differs, 2 if it could not be run."""
        return {"same": 0, "differs": 1, "not run": 2}[self.result]


@dataclass(kw_only=True)
class Ran:
    """One fresh run of a notebook's cells.

    Attributes:
        outputs: What each cell showed, by its number in the notebook; those that did not run are missing.
        cells: How each ended.
        moments: When each began and how long the run had taken at its end.
        environment: Digest of the image or environment of the kernel.
        machine: What of the machine can change a result.
        versions: The versions of its packages.
        features: The processor's instructions by NumPy's names, as the kernel says.
    """

    outputs: dict[int, list[Output]] = field(default_factory=dict)
    cells: dict[int, Cell] = field(default_factory=dict)
    moments: dict[int, tuple[float, float]] = field(default_factory=dict)
    environment: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)


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
        self._spec = self._of_the_lock(spec)
        self._strictness = strictness or Strictness()
        self._tell = tell
        self.proof = Proof(
            name=document.name,
            engine=engine.name,
            started=time.time(),
            problems=[*problems, *document.edits, *self._lock_problems()],
        )

    @property
    def _lock(self) -> Lock | None:
        return self._document.lock

    def _of_the_lock(self, spec: SandboxSpec) -> SandboxSpec:
        """The sandbox with the lock's time zone and hash seed."""
        machine = self._lock.machine if self._lock else {}
        found = {"TZ": machine.get("time_zone"), "PYTHONHASHSEED": machine.get("hash_seed")}
        known = tuple((name, value) for name, value in found.items() if isinstance(value, str) and _is_plain(value))
        return replace(spec, variables=(*known, *spec.variables))

    def _lock_problems(self) -> list[str]:
        lock = self._lock
        if lock is None:
            return []
        found = [] if lock.is_intact else ["The lock in the notebook's metadata was edited since nbagent wrote it."]
        versions = lock.versions
        for cell in self._document.cells:
            for each in script_requirements(cell.code + "\n") if cell.is_block else ():
                locked = versions.get(each.name.lower().replace("_", "-").replace(".", "-"))
                if locked is None or not each.specifier.contains(locked, prereleases=True):
                    found.append(f"The script block asks for {each}, the lock has {locked or 'no such package'}.")
        return found

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
        self.proof.seconds = time.monotonic() - started
        return self.proof

    async def _run(self, *, sweeps: bool) -> None:
        proof = self.proof
        fresh = await self.once()
        proof.notes += self._notes(fresh)
        found, again = self._compare(fresh, None), None
        if sweeps or any(each.differences or each.pictures for each in found.values()):
            again = await self.once()
            found = self._compare(fresh, again)
        async with Pictures(self._engine) as pictures:
            for cell in self._document.cells:
                proof.cells.append(await self._judge(cell, fresh, found.get(cell.number), pictures))
        if sweeps and again is not None:
            await self._sweep(fresh, again)
        if proof.problems or any(each.result != "same" for each in proof.cells):
            proof.result = "differs"

    async def _sweep(self, fresh: Ran, again: Ran) -> None:
        """Find the cells that depend on the machine, by runs on other terms, each compared with the first one."""
        known = {each.number: each for each in self.proof.cells}
        async with Pictures(self._engine) as pictures:
            for each in sweep.terms(fresh.features):
                other = await self.once(each.variables)
                found = await self._apart(other, fresh, again, pictures)
                causes: set[int] = set()
                if found and each.sorts:
                    # With stable sorts on both terms: what is the same then differed by the order of equal values.
                    stable = [await self.once(more, stable=True) for more in ((), each.variables)]
                    causes = found - await self._apart(stable[1], stable[0], stable[0], pictures)
                for number in sorted(found):
                    known[number].depends.append(f"{each.name}{': unstable sort' if number in causes else ''}")

    async def _apart(self, other: Ran, fresh: Ran, again: Ran, pictures: Pictures) -> set[int]:
        """The cells that show something else in a run than in two that agree with each other."""
        found, code = set(), Code()
        for cell in self._document.cells:
            reads = code.take(cell.code)
            one, two = other.outputs.get(cell.number), fresh.outputs.get(cell.number)
            if cell.installs or two is None:
                continue
            moments = Moments(other.moments.get(cell.number, (0.0, 0.0))[0], *fresh.moments[cell.number])
            context = Context(moments=moments, reads=reads, strictness=self._strictness)
            compared = compare(one or [], two, context, again=again.outputs.get(cell.number, []))
            differs = any(each.cause not in (EVERY_RUN, NO_SEED) for each in compared.differences)
            for pair in compared.pictures:
                likeness = await pictures.compare(pair.stored, pair.fresh, exact=True)
                differs |= not likeness.same and not pair.differs_again
            if differs:
                found.add(cell.number)
        return found

    async def once(self, variables: Sequence[tuple[str, str]] = (), *, stable: bool = False) -> Ran:
        """Run all cells in a fresh sandbox.

        Args:
            variables: What is different in its environment.
            stable: Whether sorts are made stable.

        Raises:
            SandboxError: It can't be started.
            InstallError: The packages of the lock can't be had.
        """
        recording, ran, started = Recording(), Ran(), time.time()

        def notify(event: Event) -> None:
            recording.on_event(Record(0, time.time(), event))

        spec = replace(self._spec, variables=(*self._spec.variables, *variables))
        async with Kernel(self._engine, spec, notify=notify) as kernel:
            await self._furnish(kernel)
            if stable:
                await kernel.evaluate(sweep.PRELUDE, [])
            ran.environment, ran.machine = kernel.about.environment, kernel.machine
            numbers: dict[int, int] = {}
            for done, cell in enumerate(self._document.cells):
                self._tell(done, len(self._document.cells))
                if cell.is_block and self._lock is not None:
                    continue
                began = time.time()
                ended = await kernel.run(sweep.with_stable_sorts(cell.code) if stable else cell.code)
                numbers[cell.number] = ended.cell
                ran.cells[cell.number] = ended
                ran.moments[cell.number] = (began, time.time() - started)
                if ended.status not in RUNS_ON:
                    break
            ran.features = _words(await kernel.evaluate(sweep.DISPATCH, []))
            ran.versions = kernel.versions
        for number, name in numbers.items():
            ended = recording.cell(name) or ran.cells[number]
            ran.outputs[number] = [_cleaned(each) for each in shown(ended, recording)]
        self.proof.runs += 1
        self.proof.cell_seconds += sum(each.duration for each in ran.cells.values())
        return ran

    async def _furnish(self, kernel: Kernel) -> None:
        """Install what the lock has and this kernel hasn't, and let foreign notebooks find their data."""
        lock = self._lock
        if lock is None:
            await kernel.evaluate(_LINKS, ["/tmp/data"])  # noqa: S108 - a path inside
            return
        here = kernel.pins
        others = [each for each in lock.kernel if here.get(each.name) != each.version and _is_content(each)]
        await kernel.restore([*lock.packages, *others])

    def _notes(self, fresh: Ran) -> list[str]:
        """What is different here from where the notebook was made."""
        lock = self._lock
        if lock is None:
            return ["It has no lock: its packages are those of this kernel, and what its code imports."]
        found = []
        for name, told in (("platform", "platform"), ("threads", "number of threads"), ("locale", "locale")):
            if (there := lock.machine.get(name)) != (here := fresh.machine.get(name)):
                found.append(f"Its {told} was {there}, here it is {here}.")
        theirs, ours = (set(_words(each.get("cpu_features"))) for each in (lock.machine, fresh.machine))
        if theirs != ours:
            told = ", ".join(sorted(theirs ^ ours)[:6])
            found.append(
                f"The processor has other vector instructions here ({told}): numbers may differ in last digits."
            )
        if lock.python != "" and lock.environment != fresh.environment:
            found.append("The kernel's environment is another one; the lock's packages were installed into it.")
        return found

    # -- cells ----------------------------------------------------------------------------------------------------

    def _compare(self, fresh: Ran, again: Ran | None) -> dict[int, Comparison]:
        """What differs, cell by cell, of those that ran."""
        found, code = {}, Code()
        for cell in self._document.cells:
            reads = code.take(cell.code)
            if cell.number not in fresh.outputs or cell.installs or not (cell.outputs or cell.count is not None):
                continue
            second = None if again is None else again.outputs.get(cell.number, [])
            stored = [_cleaned(each) for each in cell.outputs]
            context = self._context(cell, fresh, reads)
            found[cell.number] = compare(stored, fresh.outputs[cell.number], context, again=second)
        return found

    def _context(self, cell: DocumentCell, fresh: Ran, reads: Reads) -> Context:
        began, elapsed = fresh.moments[cell.number]
        moments = Moments(stored=cell.at, fresh=began, elapsed=elapsed)
        return Context(moments=moments, reads=reads, strictness=self._strictness)

    async def _judge(self, cell: DocumentCell, fresh: Ran, found: Comparison | None, pictures: Pictures) -> CellProof:
        proof = CellProof(id=cell.id, number=cell.number)
        ran = fresh.cells.get(cell.number)
        if ran is not None:
            proof.seconds = ran.duration
        elif not (cell.is_block and self._lock is not None):
            proof.result, proof.note = "not run", "a cell before it ended the run"
        if found is not None:
            proof.differences, proof.excused = [*found.differences], sorted(found.excused)
            for pair in found.pictures:
                seen = await pictures.compare(pair.stored, pair.fresh, exact=self._is_exact(fresh))
                if not seen.same:
                    cause = NO_SEED if pair.differs_again and pair.random else EVERY_RUN if pair.differs_again else ""
                    proof.differences.append(Difference(pair.what, f"{pair.mime}: {seen.told}", "", "", cause))
                    proof.pictures += [seen.shown] if seen.shown else []
                elif not self._is_exact(fresh):
                    proof.note = f"{pair.what}: {seen.told}"
        if proof.differences:
            proof.result = "differs"
        if ran is not None and ran.status not in RUNS_ON:
            proof.result, proof.note = "differs", ran.note or f"It ended with {ran.status}."
        if cell.is_edited:
            proof.result, proof.note = "differs", "edited since nbagent wrote it"
        return proof

    def _is_exact(self, fresh: Ran) -> bool:
        """Whether figures have to be the same in each pixel: the same programs drew them, with the same fonts."""
        lock = self._lock
        return lock is not None and lock.environment == fresh.environment


def _is_content(package: Package) -> bool:
    """Whether a package of a kernel may change a result, and can be replaced: the kernel's own machinery can't."""
    return package.name.replace("-", "_") not in KERNEL_MODULES and bool(package.sha256)


def _words(value: object) -> list[str]:
    """The words in a list that a notebook or its code claims."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _is_plain(value: str) -> bool:
    return len(value) < 64 and value.isprintable()


def _cleaned(output: Output) -> Output:
    """An output as an export has it; one that came from an export stays as it is."""
    return clean_output(output)
