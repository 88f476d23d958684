"""Makes a tool: a fresh sandbox, its dependencies, its tests, a verdict; and nothing left of a tool that failed.

The code is loaded and tested inside only. The host reads it (`source.py`), and takes what the sandbox says of it for
what it is: the word of the tool's own process.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbagent.errors import ForgeError, InstallError, NbagentError
from nbagent.events import Cell, Event, HostDecided, IndexAsked, Package, ToolStage
from nbagent.forge import schema, source, verdict
from nbagent.forge.stages import Stage, advance
from nbagent.forge.tool import Draft, Tool, check
from nbagent.kernel import probe
from nbagent.kernel.kernel import Kernel
from nbagent.kernel.outputs.mime import clean
from nbagent.kernel.recovery import LOST
from nbagent.packages.allowance import Allowance
from nbagent.packages.installer import Confirm, Exceed
from nbagent.policy import InstallPolicy
from nbagent.sandbox.contract import Engine
from nbagent.sandbox.spec import SandboxSpec
from nbagent.sandbox.untrusted import UnreadableError, parse
from nbagent.text import cut, ends, legible, one_line

PYTEST = "pytest>=8,<10"
"""What runs the tests: installed for every tool, and part of none."""
MAX_VALUE = 1024 * 1024
"""Bytes of what a function of ours returned inside: a schema, or the names of ten thousand tests."""
OUTPUT = 6000
"""Characters of what the tests printed that are told of a failure."""

_HERE = Path(__file__).parent


@dataclass
class Progress:
    """Where the making of one tool is; each stage becomes an event.

    Args:
        draft: Of the tool.
        version: That it is to have.
        notify: Gets the events.
    """

    draft: Draft
    version: int
    notify: Callable[[Event], object]

    def __post_init__(self) -> None:
        self.stage = Stage.DORMANT
        self._started = time.monotonic()

    def enter(self, stage: Stage, **what: Any) -> None:
        """Go on to the next stage.

        Args:
            stage: It.
            what: Further fields of the event.
        """
        self.stage = advance(self.stage, stage)
        seconds = round(time.monotonic() - self._started, 3)
        name = self.draft.name
        self.notify(ToolStage(tool=name, version=self.version, stage=stage.value, seconds=seconds, **what))


class Workshop:
    """Makes tools, each in a sandbox of its own.

    Args:
        engine: What isolates it.
        spec: What the sandboxes are to be; they see no data, and end with this process.
        notify: Gets the events.
        confirm: Called with what is about to be installed; it raises `InstallRefused` to keep it out.
        exceed: Called with names beyond the allowance; it raises `InstallRefused` unless a person allows them.
        allowance: What tools may ask the package index for in all; by default each for itself.

    Attributes:
        spec: What the sandboxes are.

    Raises:
        ForgeError: The engine isolates nothing.
    """

    def __init__(
        self,
        engine: Engine,
        spec: SandboxSpec,
        *,
        notify: Callable[[Event], object] = lambda _: None,
        confirm: Confirm | None = None,
        exceed: Exceed | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        isolating(engine)
        self._engine = engine
        self.spec = replace(spec, data=(), keep=0.0, late_data=False, install=_with_pytest(spec.install))
        self._notify = notify
        self._consent: dict[str, Any] = {"confirm": confirm, "exceed": exceed, "allowance": allowance}

    def begin(self, draft: Draft, *, version: int) -> Progress:
        """What tells of a tool's stages.

        Raises:
            ForgeError: It can be no tool.
        """
        check(draft)
        return Progress(draft, version, self._notify)

    async def make(self, progress: Progress) -> Tool:
        """Make the tool; it isn't in the library then, and so not active yet.

        Args:
            progress: What `begin` returned.

        Raises:
            ForgeError: It is no tool, its dependencies can't be had, or it did not pass its tests.
            SandboxError: The sandbox can't be had; the tool is not to blame.
        """
        draft = progress.draft
        progress.enter(Stage.CREATING, code=draft.code, tests=draft.tests, dependencies=list(draft.dependencies))
        kernel = Kernel(self._engine, self.spec, notify=self._hear, **self._consent)
        try:
            await kernel.start()
            progress.enter(Stage.INSTALLING)
            packages = await _install(kernel, draft)
            progress.enter(Stage.TESTING, packages=packages)
            return await _test(kernel, draft, packages, version=progress.version)
        except BaseException as error:
            progress.enter(Stage.CLEANUP, reason=_reason(error))
            raise
        finally:
            await kernel.stop()
            if progress.stage is Stage.CLEANUP:
                progress.enter(Stage.DORMANT)

    def _hear(self, event: Event) -> None:
        """Tell what left for hosts and the index. What else is told of its kernel is no cell, and in the verdict."""
        if isinstance(event, HostDecided | IndexAsked):
            self._notify(event)


def isolating(engine: Engine) -> Engine:
    """The engine, if tools can be made in it.

    Raises:
        ForgeError: It isolates nothing.
    """
    if not engine.isolates:
        raise ForgeError(
            f"The engine {engine.name} isolates nothing, and tools are never made on the host itself.",
            mend="Use docker or bubblewrap, or do without the tool forge.",
        )
    return engine


def _with_pytest(policy: InstallPolicy) -> InstallPolicy:
    """The policy, by which pytest may be installed too: it is nbagent's wish, not that of the code under suspicion."""
    if policy.allow or policy.listed_only:
        return replace(policy, allow=policy.allow | {"pytest"})
    return policy


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, NbagentError) else "It was stopped."


async def _install(kernel: Kernel, draft: Draft) -> list[Package]:
    """Install what the tool depends on, and then what its tests need; returns the former."""
    try:
        packages = await kernel.install(list(draft.dependencies)) if draft.dependencies else []
        await kernel.install([PYTEST])
    except InstallError as error:
        raise ForgeError(f"What {draft.name} needs was not installed. {error.message}", mend=error.mend) from error
    return packages


async def _test(kernel: Kernel, draft: Draft, packages: list[Package], *, version: int) -> Tool:
    """Load the tool and run its tests; returns it if it passed them."""
    found, added = await _loaded(kernel, draft)
    parameters = schema.checked(found.get("schema"))
    report = await _passed(kernel, draft)
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


async def _loaded(kernel: Kernel, draft: Draft) -> tuple[dict[str, Any], list[Package]]:
    """What the sandbox says of the tool's function, and what was installed because its code imported it."""
    arguments = (draft.name, draft.code, draft.tests, bool(draft.adapts))
    cell = await _ran(kernel, draft, "The code", "load_inside.py", "load", *arguments)
    found = _value(cell)
    if not isinstance(found, dict):
        raise ForgeError(f"{draft.name} can't be a tool: its code ended the run that loads it.", output=_printed(cell))
    if problem := found.get("problem"):
        shown = shortened(str(found.get("output", "")))
        raise ForgeError(f"{draft.name} can't be a tool: {one_line(str(problem))}", output=shown)
    return found, cell.installed


async def _passed(kernel: Kernel, draft: Draft) -> verdict.Report:
    """What the sandbox says of the tests, if by that they have passed."""
    nonce = secrets.token_hex(16)
    cell = await _ran(kernel, draft, "The tests", "tests_inside.py", "run_tests", draft.name, nonce)
    report = verdict.report_of(_value(cell), nonce=nonce)
    problem = verdict.why_not(report, expected=source.tests_in(draft.tests), smoke=bool(draft.adapts))
    if report is None or problem:
        raise ForgeError(f"{draft.name} did not pass its tests: {problem}", output=_printed(cell))
    return report


async def _ran(kernel: Kernel, draft: Draft, what: str, module: str, function: str, *arguments: Any) -> Cell:
    """Run a function of a module of ours inside, where the tool's code can do to it what it likes.

    Raises:
        ForgeError: It did not come to its end.
        SandboxError: The sandbox failed.
    """
    called = probe.shown(f"{function}({', '.join(map(repr, arguments))})")
    code = f"{(_HERE / module).read_text()}\n\n{called}"
    cell = await kernel.run(code)
    if cell.status == "ok":
        return cell
    match cell.status:
        case "error":
            # The reply is the tool's own word too: there may be no error in the outputs.
            last = next((each for each in reversed(cell.outputs) if each["output_type"] == "error"), {})
            told = f"{last.get('ename')}: {last.get('evalue')}"
            why = f"failed: {one_line(told)}. {cell.note}"
        case "timeout":
            why = f"did not end within {kernel.spec.trust.limits.timeout:g} s."
        case "died":
            # Of what is lost with that sandbox, nobody has ever seen anything.
            why = f"took the kernel with it. {cell.note.replace(LOST, '')}"
        case _:
            why = "was stopped."
    raise ForgeError(f"{what} of {draft.name} {why}".strip(), output=_printed(cell))


def _value(cell: Cell) -> Any:
    """What the function returned, if the cell ends with it; untrusted."""
    for output in reversed(cell.outputs):
        if output["output_type"] == "execute_result":
            try:
                # Half of a surrogate pair is what neither a file nor a provider takes.
                return clean(parse(str(output["data"].get(probe.MIME, "")), limit=MAX_VALUE))
            except UnreadableError:
                return None
    return None


def _printed(cell: Cell) -> str:
    return shortened("".join(str(each["text"]) for each in cell.outputs if each["output_type"] == "stream"))


def shortened(text: str) -> str:
    """Both ends of a long output."""
    half = OUTPUT // 2
    marked = "\n[… {:,} characters left out here …]\n".format
    return ends(text.strip(), head=half, tail=half, mark=marked)
