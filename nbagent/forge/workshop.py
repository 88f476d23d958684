"""Makes a tool in a fresh sandbox: installs its dependencies, runs its tests, and judges them.

The tool is imported and run in the sandbox only; on the host, `source.py` just reads its code. What the sandbox reports
comes from the tool's own process, and is checked as untrusted.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbagent.core.errors import ForgeError, InstallError, NbagentError
from nbagent.core.events import Cell, Event, HostDecided, IndexAsked, Package, ToolStageEntered
from nbagent.core.text import cut, ends, legible, one_line
from nbagent.forge import judge, schema, source
from nbagent.forge.stages import Stage, advance
from nbagent.forge.tool import Draft, Tool, check
from nbagent.kernel import inside_calls
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.outputs.mime import clean
from nbagent.kernel.recovery import LOST_NOTE
from nbagent.packages.allowance import Allowance
from nbagent.packages.installer import Confirm, Exceed
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec
from nbagent.sandbox.untrusted import MAX_DIGITS, UnreadableError, parse

PYTEST = "pytest>=8,<10"
"""Installed for the tests of every tool; it is no dependency of the tool."""
MAX_VALUE = 1024 * 1024
"""Bytes of a result from the sandbox: a schema, or the names of ten thousand tests."""
OUTPUT = 6000
"""Characters of a cell's output that an error quotes."""

_HERE = Path(__file__).parent


@dataclass
class Progress:
    """The stage of a tool that is being made; each new stage is an event."""

    draft: Draft
    version: int
    notify: Callable[[Event], object]

    def __post_init__(self) -> None:
        check(self.draft)
        self.stage = Stage.DORMANT
        self._started = time.monotonic()

    def enter(self, stage: Stage, **what: Any) -> None:
        """Go on to the next stage."""
        self.stage = advance(self.stage, stage)
        seconds = round(time.monotonic() - self._started, 3)
        name = self.draft.name
        self.notify(ToolStageEntered(tool=name, version=self.version, stage=stage.value, seconds=seconds, **what))

    def pass_on(self, event: Event) -> None:
        """Pass on the kernel's events about hosts and the package index; the others don't concern the session."""
        if isinstance(event, HostDecided | IndexAsked):
            self.notify(event)


async def make(
    progress: Progress,
    engine: Engine,
    spec: SandboxSpec,
    *,
    confirm: Confirm | None = None,
    exceed: Exceed | None = None,
    allowance: Allowance | None = None,
) -> Tool:
    """Make a tool. It becomes active once the caller has put it into the library.

    Raises:
        ForgeError: The engine isolates nothing, the tool can't be loaded, a dependency can't be installed, or a test
            failed.
        SandboxError: The sandbox failed, not the tool.
    """
    isolating(engine)
    draft = progress.draft
    progress.enter(Stage.CREATING, code=draft.code, tests=draft.tests, dependencies=list(draft.dependencies))
    kernel = Kernel(engine, fitted(spec), notify=progress.pass_on, confirm=confirm, exceed=exceed, allowance=allowance)
    try:
        await kernel.start()
        progress.enter(Stage.INSTALLING)
        packages = await _install(kernel, draft)
        progress.enter(Stage.TESTING, packages=packages)
        return await _test(kernel, draft, packages, version=progress.version)
    except BaseException as error:
        progress.enter(Stage.CLEANUP, reason=str(error) if isinstance(error, NbagentError) else "It was stopped.")
        raise
    finally:
        await kernel.stop()
        if progress.stage is Stage.CLEANUP:
            progress.enter(Stage.DORMANT)


def isolating(engine: Engine) -> Engine:
    """Check that an engine isolates; returns it."""
    if not engine.isolates:
        raise ForgeError(
            f"The engine {engine.name} isolates nothing, and tools are never made on the host itself.",
            mend="Use an engine that isolates (see `nbagent doctor`), or do without the tool forge.",
        )
    return engine


def fitted(spec: SandboxSpec) -> SandboxSpec:
    """The spec of a tool's sandbox: it sees no data, ends with this process, and may have pytest, for nbagent asks."""
    policy = spec.install
    if policy.allow or policy.listed_only:
        policy = replace(policy, allow=policy.allow | {"pytest"})
    return replace(spec, data=(), keep=0.0, late_data=False, install=policy)


async def _install(kernel: Kernel, draft: Draft) -> list[Package]:
    """Install the tool's dependencies, which are returned, and pytest."""
    try:
        packages = await kernel.install(list(draft.dependencies)) if draft.dependencies else []
        await kernel.install([PYTEST])
    except InstallError as error:
        raise ForgeError(f"What {draft.name} needs was not installed. {error.message}", mend=error.mend) from error
    return packages


async def _test(kernel: Kernel, draft: Draft, packages: list[Package], *, version: int) -> Tool:
    """Load the tool and run its tests; returns it if they passed."""
    found, added = await _load(kernel, draft)
    parameters = schema.checked(found.get("schema"))
    report = await _run_tests(kernel, draft)
    more = [each for each in added if each not in packages]
    return Tool(
        name=draft.name,
        version=version,
        description=draft.description.strip(),
        code=draft.code,
        tests=draft.tests,
        dependencies=(*draft.dependencies, *(each.name for each in more if each.requested)),
        adapts=draft.adapts,
        packages=(*packages, *more),
        schema=parameters,
        doc=cut(legible(str(found.get("doc", ""))), 1000),
        is_async=found.get("is_async") is True,
        python=kernel.python,
        tested=report.passed,
        made=time.time(),
    )


async def _load(kernel: Kernel, draft: Draft) -> tuple[dict[str, Any], list[Package]]:
    """Load the tool; returns what is reported of its function, and the packages that its imports had installed."""
    arguments = (draft.name, draft.code, draft.tests, bool(draft.adapts))
    cell = await _run(kernel, draft, "The code", "load_inside.py", "load", *arguments)
    found = _value(cell)
    if not isinstance(found, dict):
        raise ForgeError(f"{draft.name} can't be a tool: its code ended the run that loads it.", output=_output(cell))
    if problem := found.get("problem"):
        shown = shortened(str(found.get("output", "")))
        raise ForgeError(f"{draft.name} can't be a tool: {one_line(str(problem))}", output=shown)
    return found, cell.installed


async def _run_tests(kernel: Kernel, draft: Draft) -> judge.PytestReport:
    """Run the tests; returns the report if they passed."""
    nonce = secrets.token_hex(16)
    cell = await _run(kernel, draft, "The tests", "tests_inside.py", "run_tests", draft.name, nonce)
    report = judge.report_of(_value(cell), nonce=nonce)
    problem = judge.why_not(report, expected=source.tests_in(draft.tests), smoke=bool(draft.adapts))
    if report is None or problem:
        raise ForgeError(f"{draft.name} did not pass its tests: {problem}", output=_output(cell))
    return report


async def _run(kernel: Kernel, draft: Draft, what: str, module: str, function: str, *arguments: Any) -> Cell:
    """Run a function of `load_inside` or `tests_inside` in the sandbox, where the tool's code can interfere with it."""
    called = inside_calls.as_result(f"{function}({', '.join(map(repr, arguments))})")
    code = f"{(_HERE / module).read_text()}\n\n{called}"
    cell = await kernel.run(code)
    if cell.status == "ok":
        return cell
    match cell.status:
        case "error":
            # The tool can forge the reply, so there may be no error in the outputs.
            last = next((each for each in reversed(cell.outputs) if each["output_type"] == "error"), {})
            message = f"{last.get('ename')}: {last.get('evalue')}"
            why = f"failed: {one_line(message)}. {cell.note}"
        case "timeout":
            why = f"did not end within {kernel.spec.trust.limits.timeout:g} s."
        case "died":
            # That state was lost concerns nobody in this sandbox.
            why = f"took the kernel with it. {cell.note.replace(LOST_NOTE, '')}"
        case _:
            why = "was stopped."
    raise ForgeError(f"{what} of {draft.name} {why}".strip(), output=_output(cell))


def _value(cell: Cell) -> Any:
    """The function's result, untrusted; None if the cell's output doesn't end with it."""
    for output in reversed(cell.outputs):
        if output["output_type"] == "execute_result":
            try:
                # Neither files nor providers take lone surrogates.
                said = str(output["data"].get(inside_calls.RESULT_MIME, ""))
                return clean(parse(said, limit=MAX_VALUE, digits=MAX_DIGITS))
            except UnreadableError:
                return None
    return None


def _output(cell: Cell) -> str:
    return shortened("".join(str(each["text"]) for each in cell.outputs if each["output_type"] == "stream"))


def shortened(text: str) -> str:
    """Both ends of a long output."""
    half = OUTPUT // 2
    marked = "\n[… {:,} characters left out here …]\n".format
    return ends(text.strip(), head=half, tail=half, mark=marked)
