"""The engines that are installed, by name, and the choice among them."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbagent.core.errors import EngineUnavailable, LimitUnenforceable, UsageError
from nbagent.core.policy import TrustLevel
from nbagent.sandbox.spec import has_egress

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from nbagent.sandbox.contract import Control, Engine, EngineReport
    from nbagent.sandbox.spec import SandboxSpec


@functools.cache
def engines() -> dict[str, Engine]:
    """All installed engines by name, from the entry points `nbagent.engines`; looked up once.

    One that can't be imported, which may be another package's, is there as an engine that isn't available.
    """
    from importlib.metadata import entry_points

    return {point.name: _load(point) for point in entry_points(group="nbagent.engines")}


def _load(point: EntryPoint) -> Engine:
    from nbagent.sandbox.contract import UnloadableEngine

    try:
        found: Engine = point.load()
    except Exception as error:
        return UnloadableEngine(point.name, f"{point.value} can't be imported: {error}.")
    return found


def find(name: str) -> Engine:
    """The engine of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in engines():
        raise UsageError(f"There is no engine {name!r}.", mend=f"Use one of: {', '.join(sorted(engines()))}.")
    return engines()[name]


def title(name: str) -> str:
    """The name of an engine's kernels in a Jupyter client's menu; the engine need not be installed here."""
    found = engines().get(name)
    return found.title if found is not None else f"Python ({name})"


def automatic() -> list[Engine]:
    """The engines that can be chosen if nobody names one, best first; only those that settings demand, if any."""
    ranked = sorted((each.rank, name, each) for name, each in engines().items() if each.rank is not None)
    found = [each for _, _, each in ranked]
    return [each for each in found if each.is_demanded] or found


def missing(controls: Iterable[Control], spec: SandboxSpec) -> list[Control]:
    """The restrictions that a sandbox needs, the engine doesn't enforce, and nobody accepted to miss."""
    trust = spec.trust
    needed = {"memory", "pids"}
    if trust.limits.cpus is not None and trust.limits.cpus < (os.cpu_count() or 1):
        needed.add("cpu")
    if trust.log_all_commands and trust.allow_subprocess:
        needed.add("commands")
    if has_egress(trust):
        needed.add("egress")
    return [each for each in controls if not each.enforced and each.name in needed - spec.accept]


def _is_unisolated(engine: Engine, spec: SandboxSpec) -> bool:
    """Whether code that isn't trusted would run where nothing isolates it."""
    return engine.owns and not engine.isolates and spec.trust.level is not TrustLevel.TRUSTED


def refuse_unisolated(engine: Engine, spec: SandboxSpec) -> None:
    """Refuse to run code that isn't trusted in an engine that isolates nothing; called before each start.

    Raises:
        UsageError: That is wanted.
    """
    if _is_unisolated(engine, spec):
        raise UsageError(f"The {engine.name} engine isolates nothing.", mend="Say so with --trust trusted.")


def unenforceable(engine: str, lacking: Sequence[Control]) -> LimitUnenforceable:
    """The error for a sandbox without restrictions that it needs."""
    names = [each.name for each in lacking]
    reasons = "; ".join(dict.fromkeys(each.how or "it isolates nothing" for each in lacking))
    told = ", ".join(f'"{name}"' for name in names)
    options = " ".join(f"--accept {name}" for name in names)
    return LimitUnenforceable(
        f"The {engine} engine can't enforce the limit on {' and '.join(names)} here: {reasons}.",
        mend=f"Use another engine (see `nbagent doctor`), or accept it with {options}.",
        elsewhere=f"Choose the kernel of another engine, or accept it in your nbagent settings: accept = [{told}].",
    )


@dataclass(frozen=True)
class EngineCandidate:
    """An engine, and what keeps it from starting certain sandboxes here.

    Attributes:
        report: What it can do here.
        lacking: Restrictions that the sandboxes need and that it doesn't enforce.
        unisolated: Whether it isolates nothing, though not all of the code is trusted.
    """

    engine: Engine
    report: EngineReport
    lacking: tuple[Control, ...]
    unisolated: bool

    @property
    def starts(self) -> bool:
        """Whether it would start them."""
        return self.report.available and not self.lacking and not self.unisolated

    @property
    def why_not(self) -> str:
        """Why it would not start them, with the mend; empty if it would."""
        if not self.report.available:
            return f"{self.report.reason} {self.report.mend}".strip()
        if self.unisolated:
            return "It isolates nothing, and is for the trust level trusted only."
        return str(unenforceable(self.engine.name, self.lacking)) if self.lacking else ""


def candidate(engine: Engine, *, image: str | None = None, specs: Iterable[SandboxSpec] = ()) -> EngineCandidate:
    """Whether an engine would start all of these sandboxes."""
    report = engine.check(image=image)
    wanted = list(specs)
    lacking = {each.name: each for spec in wanted for each in missing(report.controls, spec)}
    unisolated = any(_is_unisolated(engine, spec) for spec in wanted)
    return EngineCandidate(engine, report, tuple(lacking.values()) if engine.isolates else (), unisolated)


@dataclass(frozen=True)
class Survey:
    """Whether each engine would start a certain sandbox here.

    Attributes:
        candidates: All engines by name, sorted.
        chosen: The name of the engine that would start it; None if none would.
    """

    candidates: dict[str, EngineCandidate]
    chosen: str | None


def survey(spec: SandboxSpec, *, name: str | None = None) -> Survey:
    """Ask each engine whether it would start a sandbox here; only that of `name` is chosen if a person names one."""
    found = {
        each: candidate(engine, image=spec.image, specs=[spec])
        for each, engine in sorted(engines().items())
        if engine.owns
    }
    order = [name] if name else [each.name for each in automatic()]
    return Survey(found, next((each for each in order if each in found and found[each].starts), None))


def _for_kernels(name: str | None) -> str:
    """The name of the engine of kernels that somebody else started."""
    found = next((each for each, engine in sorted(engines().items()) if not engine.owns), None)
    if found is None:
        raise EngineUnavailable("No engine for kernels that run already is installed.", mend="Install nbagent again.")
    if name not in (None, found):
        raise UsageError(f"A kernel that runs already needs no engine {name}.", mend="Leave out --engine.")
    return found


async def choose(name: str | None, *, image: str | None = None, specs: Iterable[SandboxSpec] = ()) -> Engine:
    """The engine of that name, or the best that would start such sandboxes here; never `local` unless named.

    Raises:
        UsageError: There is none of that name.
        EngineUnavailable: It doesn't work here, or no engine does.
        LimitUnenforceable: A limit that is needed can't be enforced by it, or by any engine that works.
    """
    wanted = list(specs)
    if any(spec.kernel for spec in wanted):
        name = _for_kernels(name)
    if name:
        named = await asyncio.to_thread(candidate, find(name), image=image, specs=wanted)
        if (report := named.report).available:
            if named.lacking:
                raise unenforceable(name, named.lacking)
            return named.engine
        rest = [await asyncio.to_thread(candidate, each, image=image, specs=wanted) for each in automatic()]
        instead = "".join(f"Use --engine {each.engine.name}, which works here, or: " for each in rest if each.starts)
        raise EngineUnavailable(f"The engine {name} doesn't work here: {report.reason}", mend=f"{instead}{report.mend}")
    tried = []
    for engine in automatic():
        tried.append(await asyncio.to_thread(candidate, engine, image=image, specs=wanted))
        if tried[-1].starts:
            return engine
    for each in tried:
        if each.report.available:
            others = [f"{one.engine.name}: {one.why_not}" for one in tried if one is not each]
            error = unenforceable(each.engine.name, each.lacking)
            raise type(error)(error.message, mend="\n".join([error.mend, *others]).strip(), elsewhere=error.elsewhere)
    raise EngineUnavailable(
        "No engine can isolate code on this machine, and nbagent never runs it unisolated by itself.",
        mend="\n".join(f"{each.engine.name}: {each.why_not}" for each in tried)
        or "Install nbagent again: its engines are not registered.",
    )
