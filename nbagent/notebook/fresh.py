"""Runs a notebook's cells in fresh sandboxes, with the packages, the time zone and the hash seed of its lock.

runs = FreshRuns(document, engine=engine, spec=spec)
ran = await runs.once()
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from nbagent.core.events import Cell, Event, Output, Package, Record
from nbagent.core.text import joined
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.transfer.file_watch import FileWatch
from nbagent.notebook import sweep
from nbagent.notebook.compare import notes
from nbagent.notebook.compare.streams import Printed
from nbagent.notebook.compare.texts import HTML
from nbagent.notebook.compare.widgets import EVERY, cleaned
from nbagent.notebook.document import Document
from nbagent.notebook.lock import Lock
from nbagent.notebook.record import Recording
from nbagent.notebook.shown import shown
from nbagent.packages.unpacked import KERNEL_MODULES
from nbagent.safety.sanitize import PLOTLY
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.machine.userland import POLARS
from nbagent.sandbox.spec import SandboxSpec

RUNS_ON = frozenset({"ok", "error"})
"""Ends of a cell after which the next one finds its variables."""
MOST_SAVED = 1_000
"""Files that one look for those that a cell saved reports."""
MOST_LOOKS = 20
"""Looks after one cell."""
STEP = 89
"""Numbers by which those of the processes that cells start are further on in each run than in the one before."""
MAX_LOADER = 100_000
"""Characters of HTML that loads Plotly's library by its address; the library itself has millions."""


@dataclass(kw_only=True)
class Ran:
    """One fresh run of a notebook's cells.

    Attributes:
        outputs: What each cell showed, by its number in the notebook, as it is compared (see `Document.comparable`);
            those that did not run are missing.
        ended: The same without what came late, of cells of which something did: some clients keep nothing of that.
        exported: The same as an export has it.
        cells: How each ended.
        moments: When each began and how long the run had taken at its end.
        environment: Digest of the image or environment of the kernel.
        machine: What of the machine can change a result.
        versions: The versions of its packages.
        features: The processor's instructions by NumPy's names, as the kernel says.
        printed: What each cell printed as it came, by its number and the name of the stream.
        saved: The names of the files that each cell saved, by its number, where the notebook has sentences on files.
        widgets: The models of its widgets at the end, by their names, as an export has them.
        models: The same as they are compared; for a notebook of another client's with those that were closed.
        process: The number of the kernel's process, as it says; 0 if that is no number.
    """

    outputs: dict[int, list[Output]] = field(default_factory=dict)
    ended: dict[int, list[Output]] = field(default_factory=dict)
    exported: dict[int, list[Output]] = field(default_factory=dict)
    cells: dict[int, Cell] = field(default_factory=dict)
    moments: dict[int, tuple[float, float]] = field(default_factory=dict)
    environment: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)
    printed: dict[int, dict[str, str]] = field(default_factory=dict)
    saved: dict[int, frozenset[str]] = field(default_factory=dict)
    widgets: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    process: int = 0


class FreshRuns:
    """Fresh runs of one notebook.

    Attributes:
        count: How many there were.
        seconds: How long their cells took.
    """

    def __init__(
        self,
        document: Document,
        *,
        engine: Engine,
        spec: SandboxSpec,
        tell: Callable[[int, int], object] = lambda _done, _all: None,
    ) -> None:
        self.count, self.seconds = 0, 0.0
        self._document = document
        self._engine = engine
        self._spec = _of_the_lock(_with_tables(_with_renderer(spec, document), document), document.lock)
        self._tell = tell

    async def once(
        self,
        variables: Sequence[tuple[str, str]] = (),
        *,
        stable: bool = False,
        first: Callable[[Kernel], Awaitable[bool]] | None = None,
    ) -> Ran:
        """Run all cells in a fresh sandbox.

        Args:
            variables: What is different in its environment.
            stable: Whether sorts are made stable.
            first: Called with the kernel before any cell; returns whether the cells are to run.

        Raises:
            SandboxError: It can't be started.
            InstallError: The packages of the lock can't be had.
        """
        recording, printed, ran = Recording(), Printed(), Ran()
        is_ours = self._document.is_ours

        def notify(event: Event) -> None:
            recording.on_event(Record(0, time.time(), event))
            printed.on_event(event)

        spec = replace(self._spec, variables=(*self._spec.variables, *variables))
        async with Kernel(self._engine, spec, notify=notify) as kernel:
            await self._furnish(kernel)
            if stable:
                await kernel.evaluate(sweep.PRELUDE, [])
            if first is not None and not await first(kernel):
                return ran
            ran.environment, ran.machine = kernel.about.environment, kernel.machine
            ran.process = _number(await kernel.evaluate(sweep.PROCESS, [self.count * STEP]))
            await self._run_cells(kernel, ran, stable=stable)
            ran.features = words(await kernel.evaluate(sweep.DISPATCH, []))
            ran.versions = kernel.versions
            state = kernel.take_widget_state() or {}
            ran.widgets = cleaned(state)
            ran.models = ran.widgets if is_ours else kernel.closed_widgets() | state.get("state", {})
        # An export keeps the views of those widgets only that were there at the end.
        views = ran.widgets if is_ours else EVERY
        for number, cell in ran.cells.items():
            ended = recording.cell(cell.cell) or cell
            exported = ran.exported[number] = shown(ended, recording, widgets=views)
            ran.printed[number] = printed.of(cell.cell)
            ran.outputs[number] = exported if is_ours else shown(ended, recording, clean=copy)
            if not is_ours and cell.cell in recording.late:
                ran.ended[number] = shown(ended, recording, clean=copy, late=False)
        self.count += 1
        self.seconds += sum(each.duration for each in ran.cells.values())
        return ran

    async def _run_cells(self, kernel: Kernel, ran: Ran, *, stable: bool) -> None:
        """Run the cells until one leaves no variables for the next."""
        cells, started, saved = self._document.cells, time.time(), await self._watch(kernel)
        for done, cell in enumerate(cells):
            self._tell(done, len(cells))
            if cell.is_block and self._document.lock is not None:
                continue
            began = time.time()
            code = sweep.with_stable_sorts(cell.code) if stable else cell.code
            ended = await kernel.run(code, counted=not cell.is_added)
            if cell.is_added:  # the code of former exports counts back by itself
                await kernel.evaluate(sweep.RECOUNT, [])
            ran.cells[cell.number] = ended
            ran.moments[cell.number] = (began, time.time() - started)
            if ended.status not in RUNS_ON:
                return
            ran.saved[cell.number] = await saved()

    async def _watch(self, kernel: Kernel) -> Callable[[], Awaitable[frozenset[str]]]:
        """What returns the names of the files that were saved since it was called before."""
        if not any(notes.names_files(each.outputs) for each in self._document.cells):
            return _nothing
        about = kernel.about
        watch = FileWatch(kernel, about.output_folder, bound=MOST_SAVED, work=about.workspace_folder)

        async def saved() -> frozenset[str]:
            names = set[str]()
            for _ in range(MOST_LOOKS):
                found = await watch.look()
                looked = found.output, found.work
                for folder in looked:
                    names.update(notes.shown(name) for name, *_ in folder.files)
                    names.update(notes.shown(name) for name, _ in folder.odd)
                if all(folder.fresh <= len(folder.files) for folder in looked):
                    break
            return frozenset(names)

        await saved()
        return saved

    async def _furnish(self, kernel: Kernel) -> None:
        """Install what the lock has and this kernel hasn't."""
        lock = self._document.lock
        if lock is None:
            return
        here = kernel.pins
        others = [each for each in lock.kernel if here.get(each.name) != each.version and _is_replaceable(each)]
        await kernel.install_locked([*lock.packages, *others])


async def _nothing() -> frozenset[str]:
    return frozenset()


def words(value: object) -> list[str]:
    """The words in a list that a notebook or its code claims."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _number(said: object) -> int:
    """The number of a process, which a notebook's code may have made up."""
    return said if isinstance(said, int) and 0 < said < 2**31 else 0


def is_machinery(name: str) -> bool:
    """Whether a package is the kernel's own machinery, which a lock can't replace."""
    return name.replace("-", "_") in KERNEL_MODULES


def _is_replaceable(package: Package) -> bool:
    return not is_machinery(package.name) and bool(package.sha256)


def _with_renderer(spec: SandboxSpec, document: Document) -> SandboxSpec:
    """The sandbox in which Plotly shows its figures in the forms in which the notebook has them.

    It chooses them by the program that it runs in (`plotly.io.renderers`), which was another one.
    """
    bundles = [output.get("data", {}) for cell in document.cells for output in cell.outputs]
    if document.is_ours or not any(PLOTLY in each and HTML in each for each in bundles):
        return spec
    # What loads the library stands before the first figure: all of it, or its address.
    pages = [joined(each.get(HTML, "")) for each in bundles if PLOTLY not in each]
    has_library = any(len(each) > MAX_LOADER and "Plotly" in each for each in pages)
    renderer = f"plotly_mimetype+notebook{'' if has_library else '_connected'}"
    return replace(spec, variables=(("PLOTLY_RENDERER", renderer), *spec.variables))


def _with_tables(spec: SandboxSpec, document: Document) -> SandboxSpec:
    """The sandbox in which Polars shows as much of a table as where the notebook was made, as its kernelspec says.

    All kernels of nbagent's sandboxes, whichever client starts them, have Polars show more than others do.
    """
    name = document.kernelspec or ("nbagent-" if document.is_ours else "")
    if name.startswith("nbagent-") and name != "nbagent-local":
        return spec
    return replace(spec, variables=(*((name, None) for name in POLARS), *spec.variables))


def _of_the_lock(spec: SandboxSpec, lock: Lock | None) -> SandboxSpec:
    """The sandbox with a lock's time zone and hash seed."""
    machine = lock.machine if lock else {}
    zone, seed = (str(machine.get(name) or "") for name in ("time_zone", "hash_seed"))
    known = [("TZ", zone)] if 0 < len(zone) < 64 and zone.isprintable() else []
    # With any other seed Python doesn't start.
    if seed == "random" or (len(seed) <= 10 and seed.isdecimal() and seed.isascii() and int(seed) < 2**32):
        known.append(("PYTHONHASHSEED", seed))
    return replace(spec, variables=(*known, *spec.variables))
