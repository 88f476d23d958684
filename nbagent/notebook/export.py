"""Writes a recorded session as a notebook that runs again.

Its first code cell has a PEP 723 block with the packages' exact versions, which `juv`, `uv` and nbagent's own kernels
install. A cell that failed is tagged `raises-exception`, so that a re-run goes on behind it. A cell that had to be
stopped, or that ended its kernel, would do so again: it becomes text.

When the notebook is opened it loads nothing, whatever code, a model or a question put into it
(`nbagent.safety.sanitize`). Outputs that came after a cell's end are marked as late. Code is as it ran.
"""

from __future__ import annotations

import ast
import html
import json
import re
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

import nbformat
from msgspec import to_builtins
from packaging.utils import canonicalize_name

from nbagent import __version__
from nbagent.core import fileio
from nbagent.core.errors import InstallRefused
from nbagent.core.events import Answer, Asked, Cell, Claim, FileUploaded, ModelReplied, Output
from nbagent.kernel.outputs.widgets import STATE_MIME
from nbagent.notebook import place
from nbagent.notebook.record import Recording
from nbagent.notebook.shown import shown
from nbagent.notebook.uploads import upload_cells
from nbagent.packages.modules import distribution_for
from nbagent.safety.sanitize import clean_markdown, clean_output, clean_widgets
from nbagent.sandbox.data import needs
from nbagent.sandbox.registry import by_themselves, title

RUNS_AGAIN = frozenset({"ok", "error"})
CORE = ("ipykernel", "polars", "matplotlib")
"""The packages that every exported notebook names, so that it runs in a plain environment."""


def export(recording: Recording, path: Path, *, pins: dict[str, str], force: bool = False) -> Path:
    """Write the notebook.

    Args:
        recording: The session so far.
        path: Where. An earlier notebook of nbagent's is replaced atomically.
        pins: Versions of the kernel's packages, by distribution.
        force: Whether any notebook is replaced.

    Returns:
        The absolute path.

    Raises:
        UsageError: No notebook may be written there, see `place.check`.
        StoreError: It can't be written.
    """
    path = place.check(path, data=[Path(each.source) for each in recording.data], force=force)
    notebook = build(recording, pins=pins)
    nbformat.validate(notebook)
    place.mark(notebook)
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"
    fileio.save(path, text.encode())
    return path


def build(recording: Recording, *, pins: dict[str, str]) -> Any:
    """Make the notebook, an nbformat 4.5 node. Arguments as for `export`."""
    cells: list[Any] = []
    if recording.cells:
        cells.append(_requirements(recording, pins))
    widgets = clean_widgets(recording.widgets, lambda outputs: [clean_output(each) for each in outputs])
    last = {_turn(item): number for number, item in enumerate(recording.items)}
    remarks = uploads = 0
    for number, item in enumerate(recording.items):
        if isinstance(item, Asked):
            cells.append(_markdown(f"question-{item.turn}", _question(item), {"role": "question", "turn": item.turn}))
        elif isinstance(item, ModelReplied):
            remarks += 1
            cells.append(
                _markdown(f"remark-{remarks}", clean_markdown(item.text.strip()), {"role": "remark", "turn": item.turn})
            )
        elif isinstance(item, FileUploaded):
            uploads += 1
            cells += upload_cells(item, uploads)
        elif item.status in RUNS_AGAIN:
            cells.append(_code(item, recording, widgets["state"]))
        else:
            cells.append(_stopped(item, recording))
        turn = _turn(item)
        if last[turn] == number and turn in recording.answers:
            # The answer comes last in its turn, though a person may have run cells of their own meanwhile.
            cells.append(_answer(recording.answers[turn]))
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=_metadata(recording, widgets))
    # Metadata that was put in as plain dicts becomes nodes, as readers of a notebook expect.
    return nbformat.from_dict(notebook)


def _requirements(recording: Recording, pins: dict[str, str]) -> Any:
    """The cell with the packages: those that were installed, and those of the kernel that the code imports."""
    wanted = {name: pins[name] for name in CORE if name in pins}
    for module in {module for cell in recording.cells for module in imports(cell.code)}:
        if (name := _distribution(module)) in pins:
            wanted[name] = pins[name]
    wanted |= {package.name: package.version for package in recording.packages.values()}
    lines = [f'#     "{name}=={version}",' for name, version in sorted(wanted.items())]
    python = recording.started.python if recording.started else ".".join(map(str, sys.version_info[:2]))
    wants = f'# requires-python = ">={".".join(python.split(".")[:2])}"'
    source = "\n".join(["# /// script", wants, "# dependencies = [", *lines, "# ]", "# ///"])
    cell = nbformat.v4.new_code_cell(source, id="requirements")
    cell.metadata = {"nbagent": {"role": "requirements"}, "jupyter": {"source_hidden": True}}
    return cell


def _distribution(module: str) -> str:
    try:
        return canonicalize_name(distribution_for(module))
    except InstallRefused:
        # A module of the standard library, or a file of the session.
        return ""


def imports(code: str) -> set[str]:
    """The top-level modules that a cell imports; empty if it isn't plain Python."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _turn(item: Asked | ModelReplied | FileUploaded | Cell) -> int:
    return 0 if isinstance(item, FileUploaded) else item.turn


def _question(asked: Asked) -> str:
    return f"**Question {asked.turn}**\n\n{clean_markdown(asked.question)}"


def _answer(answer: Answer) -> Any:
    note = "" if answer.success else "\n\n*(This turn did not come to a successful end.)*"
    facts: dict[str, Any] = {"role": "answer", "turn": answer.turn}
    if answer.claims:
        facts["claims"] = to_builtins(answer.claims)
    return _markdown(f"answer-{answer.turn}", clean_markdown(answer.text) + note + _sources(answer.claims), facts)


def _sources(claims: list[Claim]) -> str:
    """Markdown that names the cell of each number of an answer, folded, and the numbers that no cell shows."""
    told = ""
    if missing := [claim.text for claim in claims if not claim.supported]:
        told += f"\n\n*Shown by no cell: {clean_markdown(', '.join(missing))}.*"
    if found := [claim for claim in claims if claim.supported]:
        # JupyterLab follows such a link to the cell with this id.
        lines = [
            f"- {clean_markdown(claim.text)}: [cell {claim.cell}](#cell-id=cell-{claim.cell})"
            + (f", as {clean_markdown(claim.shown)}" if claim.shown != claim.text else "")
            for claim in found
        ]
        told += "\n\n<details><summary>Where the numbers stand</summary>\n\n" + "\n".join(lines) + "\n\n</details>"
    return told


def _markdown(name: str, source: str, metadata: dict[str, Any]) -> Any:
    return nbformat.v4.new_markdown_cell(source, id=name, metadata={"nbagent": metadata})


def _code(cell: Cell, recording: Recording, widgets: Container[str]) -> Any:
    made = nbformat.v4.new_code_cell(cell.code, id=f"cell-{cell.cell}", execution_count=cell.execution_count)
    outputs = shown(cell, recording, widgets=widgets)
    made.outputs = [nbformat.from_dict(_numbered(output, cell.execution_count)) for output in outputs]
    made.metadata = {"nbagent": _facts(cell)}
    if cell.status == "error":
        made.metadata["tags"] = ["raises-exception"]
    return made


def _numbered(output: Output, count: int | None) -> Output:
    if output["output_type"] == "execute_result":
        # The count that code put into the output may be wrong: the output is this cell's.
        return {**output, "execution_count": count}
    return output


def _stopped(cell: Cell, recording: Recording) -> Any:
    """A cell that a re-run must leave out, as text: its code, and why."""
    why = cell.note or "It was still running when this notebook was written."
    source = f"{_fenced(cell.code)}\n\n*Not part of a re-run: {clean_markdown(why)}*"
    facts = {**_facts(cell), "role": "stopped", "outputs": shown(cell, recording)}
    return _markdown(f"cell-{cell.cell}", source, facts)


def _fenced(code: str) -> str:
    """Code as Markdown, so that it is shown and copied as it is."""
    fence = "`" * max(3, _longest(code, "`") + 1)
    block = f"{fence}python\n{code}\n{fence}"
    if clean_markdown(block) == block:
        return block
    # As HTML, in which no character of the code means something in Markdown, HTML or TeX.
    quoted = re.sub(r"[!\\$`]", lambda sign: f"&#{ord(sign[0])};", html.escape(code))
    return f'<pre><code class="language-python">{quoted}</code></pre>'


def _longest(text: str, character: str) -> int:
    longest = run = 0
    for each in text:
        run = run + 1 if each == character else 0
        longest = max(longest, run)
    return longest


def _facts(cell: Cell) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "role": "cell",
        "cell": cell.cell,
        "turn": cell.turn,
        "status": cell.status,
        "seconds": round(cell.duration, 3),
    }
    if cell.note:
        facts["note"] = cell.note
    if cell.installed:
        facts["installed"] = [{"name": p.name, "version": p.version, "sha256": p.sha256} for p in cell.installed]
    return facts


def _metadata(recording: Recording, widgets: dict[str, Any]) -> dict[str, Any]:
    started = recording.started
    # The kernel of a session that never started is one of the engine that needs least.
    engine = started.engine if started else by_themselves()[-1].name
    metadata: dict[str, Any] = {
        "kernelspec": {
            "name": f"nbagent-{engine}",
            "display_name": title(engine),
            "language": "python",
        },
        "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
        "nbagent": {"version": __version__, **_provenance(recording)},
    }
    if started:
        metadata["language_info"]["version"] = started.python
    if widgets["state"]:
        metadata["widgets"] = {STATE_MIME: widgets}
    return metadata


def _provenance(recording: Recording) -> dict[str, Any]:
    """The provenance: session, engine, models, data and packages, with their hashes."""
    started = recording.started
    packages = sorted(recording.packages.values(), key=lambda each: each.name)
    return {
        "session": started.session if started else "",
        "engine": started.engine if started else "",
        "trust": started.trust if started else "",
        "environment": started.environment if started else "",
        "data": [needs.described(each) for each in recording.data],
        "uploads": [
            {"path": each.path, "name": each.name, "size": each.size, "sha256": each.sha256}
            for each in recording.uploads
        ],
        "packages": [
            {"name": p.name, "version": p.version, "sha256": p.sha256, "requested": p.requested} for p in packages
        ],
        "turns": [_provenance_of(asked, recording.answers.get(asked.turn)) for asked in recording.questions],
    }


def _provenance_of(asked: Asked, answer: Answer | None) -> dict[str, Any]:
    return {
        "turn": asked.turn,
        "model": asked.model,
        "replay": asked.replay,
        "success": answer is not None and answer.success,
        "usage": to_builtins(answer.usage) if answer else {},
        "seconds": round(answer.seconds, 3) if answer else 0.0,
    }
