"""Tells how a notebook came about: who asked what, which cell ran by whom and when, what was changed since. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nbagent.core.text import one_line
from nbagent.notebook.document import Document
from nbagent.notebook.place import source_digest

LONGEST = 100
"""Characters of a question or a line of code that are shown."""
ROLES = frozenset({"question", "remark", "answer", "upload", "cell", "stopped"})


def provenance(document: Document) -> Iterator[str]:
    """The lines that tell a notebook's provenance; of anybody else's notebook, its cells are all that is known."""
    facts = document.facts
    if "version" not in facts:
        yield f"{document.name} is not nbagent's: only of cells that nbagent put in is known how they came about."
    else:
        yield from _beginning(facts)
    for cell in document.raw.cells:
        yield from _cell(cell)
    if isinstance(rerun := facts.get("rerun"), dict):
        given = rerun.get("parameters")
        values = ", ".join(f"{name} = {value}" for name, value in given.items()) if isinstance(given, dict) else ""
        yield f"Run again {rerun.get('at')}, {one_line(f'with {values}' if values else 'on other data', LONGEST)}."
    if isinstance(verified := facts.get("verified"), dict):
        result, engine = verified.get("result"), verified.get("engine")
        yield f"Verified {verified.get('at')} by {verified.get('by')} ({engine}): {result}."


def _beginning(facts: Any) -> Iterator[str]:
    session, version, engine, trust = (facts.get(name) for name in ("session", "version", "engine", "trust"))
    yield f"Session {session}, nbagent {version}, {engine}, {trust}."
    for each in facts.get("data", ()):
        digest = each.get("sha256") or "unknown"
        yield f"Data {each.get('path')}: {each.get('size', 0):,} bytes, SHA-256 {digest}."
    lock = facts.get("lock") or {}
    for each in lock.get("packages", ()):
        yield f"Package {each.get('name')} {each.get('version')}: SHA-256 {each.get('sha256')}."
    if seeds := [f"cell {each.get('cell')}: {each.get('code')}" for each in lock.get("seeds", ())]:
        yield f"Seeds: {'; '.join(seeds)}."


def _cell(cell: Any) -> Iterator[str]:
    facts = cell.metadata.get("nbagent", {})
    role = facts.get("role")
    line = one_line(_first(cell.source), LONGEST)
    if not facts and cell.source.strip():
        yield f"{cell.get('id') or cell.cell_type}: added by a person: {line}"
        return
    if role not in ROLES:
        return
    known = facts.get("source_sha256") or facts.get("sha256") or ""
    edited = "; edited since" if known not in ("", source_digest(cell.source)) else ""
    if role in ("cell", "stopped"):
        yield f"{_how(cell, facts)}{edited}: {line}"
    else:
        yield f"Turn {facts.get('turn', 0)}, {role}{edited}: {line}"


def _how(cell: Any, facts: Any) -> str:
    """When a cell ran, for which turn, by what, and who let it."""
    parts = [
        f"  {facts.get('time', '')} {cell.get('id')}".rstrip(),
        f"turn {facts['turn']}" if facts.get("turn") else "",
    ]
    if tool := facts.get("tool"):
        model = f" of {facts['model']}" if facts.get("model") else ""
        parts.append(f"by {tool}{model}")
    if approver := facts.get("approver"):
        parts.append(f"approved by {approver}")
    installed = [f"{each.get('name')} {each.get('version')}" for each in facts.get("installed", ())]
    parts += [
        f"{facts.get('status')} in {facts.get('seconds')} s",
        f"installed {', '.join(installed)}" if installed else "",
    ]
    return ", ".join(each for each in parts if each)


def _first(source: str) -> str:
    """The first line that says something."""
    lines = [each.strip("#* ") for each in source.splitlines() if each.strip("#* ")]
    return lines[1] if len(lines) > 1 and lines[0] == "Answer" else lines[0] if lines else ""
