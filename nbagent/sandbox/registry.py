"""The engines that are installed, by name, and the choice among them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nbagent.errors import EngineUnavailable

if TYPE_CHECKING:
    from nbagent.sandbox.engine import Engine


def engines() -> dict[str, Engine]:
    """All installed engines by name, from the entry points `nbagent.engines`."""
    from importlib.metadata import entry_points

    return {point.name: point.load() for point in entry_points(group="nbagent.engines")}


def by_itself() -> tuple[str, ...]:
    """The engines that are chosen by themselves, the best first; who has set a runtime means docker alone."""
    from nbagent import settings

    return ("docker",) if settings.load().docker_runtime else ("docker", "bubblewrap")


async def choose(name: str | None, *, image: str | None = None) -> Engine:
    """The engine of that name, or the best that works here: docker, else bubblewrap, never `local`.

    Raises:
        EngineUnavailable: There is none of that name, it doesn't work here, or none does; with the mend.
    """
    found = engines()
    if name:
        if name not in found:
            raise EngineUnavailable(f"There is no engine {name!r}.", mend=f"Use one of: {', '.join(sorted(found))}.")
        report = found[name].check(image=image)
        if not report.available:
            raise EngineUnavailable(f"The engine {name} doesn't work here: {report.reason}", mend=report.mend)
        return found[name]
    reasons = []
    for each in by_itself():
        if each in found:
            report = await asyncio.to_thread(found[each].check, image=image)
            if report.available:
                return found[each]
            reasons.append(f"{each}: {report.reason} {report.mend}")
    raise EngineUnavailable(
        "No engine can isolate code on this machine, and nbagent never runs it unisolated by itself.",
        mend=" ".join(reasons) or "Install nbagent again: its engines are not registered.",
    )
