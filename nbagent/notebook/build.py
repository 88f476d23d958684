"""Makes a notebook of a recorded session, one that runs again. Pure.

Its first code cell has a PEP 723 block with the packages' exact versions, which `juv`, `uv` and nbagent's own kernels
install. A cell that failed is tagged `raises-exception`, so that a re-run goes on behind it. A cell that had to be
stopped, or that ended its kernel, would do so again: it becomes text.

When the notebook is opened it loads nothing, whatever code, a model or a question put into it
(`nbagent.safety.sanitize`). Outputs that came after a cell's end are marked as late. Code is as it ran.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Container
from datetime import UTC, datetime
from typing import Any

from msgspec import to_builtins
from packaging.utils import canonicalize_name

from nbagent import __version__
from nbagent.core.errors import InstallRefused
from nbagent.core.events import Answer, Asked, Cell, FileUploaded, ModelReplied, Output
from nbagent.core.text import one_line
from nbagent.notebook import nodes, prose
from nbagent.notebook.lock import Lock, imports, lock_of, utc
from nbagent.notebook.record import Recording
from nbagent.notebook.shown import shown
from nbagent.notebook.uploads import names_alone, places_cell, upload_cells
from nbagent.packages.import_names import distribution_for
from nbagent.safety.sanitize import clean_markdown, clean_output, clean_widgets
from nbagent.safety.sanitize.widgets import STATE_MIME
from nbagent.sandbox import registry
from nbagent.sandbox.paths import OUTPUT

RUNS_AGAIN = frozenset({"ok", "error"})
CORE = ("ipykernel", "polars", "matplotlib")
"""The packages that every exported notebook names, so that it runs in a plain environment."""


def build(recording: Recording) -> Any:
    """Make the notebook of a session so far, as nbformat 4.5 has it."""
    lock = lock_of(recording)
    cells: list[Any] = [_title(recording, lock)] if recording.items else []
    # Unless a person named the session, its first question is its title.
    entitled = None if recording.title else next(iter(recording.questions), None)
    if recording.cells:
        cells.append(_requirements(recording, lock))
        if recording.data or any(OUTPUT in cell.code for cell in recording.cells):
            paths = [each.path for each in recording.data]
            code = "\n".join(cell.code for cell in recording.cells)
            cells.append(places_cell(paths, plain=any(names_alone(each, code) for each in paths)))
    widgets = clean_widgets(recording.widgets, lambda outputs: [clean_output(each) for each in outputs])
    last = {_turn(item): number for number, item in enumerate(recording.items)}
    remarks = uploads = 0
    remark = ""
    for number, item in enumerate(recording.items):
        if isinstance(item, Asked):
            if item is not entitled:
                text = prose.heading(item, level="##")
                cells.append(_markdown(f"question-{item.turn}", text, {"role": "question", "turn": item.turn}))
        elif isinstance(item, ModelReplied):
            remarks += 1
            cells.append(
                _markdown(f"remark-{remarks}", clean_markdown(item.text.strip()), {"role": "remark", "turn": item.turn})
            )
        elif isinstance(item, FileUploaded):
            uploads += 1
            cells += upload_cells(item, uploads)
        elif item.status in RUNS_AGAIN:
            cells += _code(item, recording, widgets["state"], remark=remark)
        else:
            cells.append(_stopped(item, recording))
        remark = item.text if isinstance(item, ModelReplied) else ""
        turn = _turn(item)
        if last[turn] == number and turn in recording.answers:
            # The answer comes last in its turn, though a person may have run cells of their own meanwhile.
            cells.append(_answer(recording.answers[turn]))
    return nodes.new_notebook(cells, _metadata(recording, widgets, lock))


def title(notebook: Any) -> str:
    """The title of such a notebook as text; empty if nothing happened in it."""
    first = notebook["cells"][0] if notebook["cells"] else {"source": ""}
    return str(first["source"].partition("\n")[0].removeprefix("# "))


def _title(recording: Recording, lock: Lock) -> Any:
    """The cell with the title, which is a person's, or the first question, and the data."""
    data = f"\n\n{prose.data(lock.data)}" if lock.data else ""
    asked = next(iter(recording.questions), None)
    if asked is None or recording.title:
        title = clean_markdown(one_line(recording.title)) or "What ran"
        return _markdown("title", f"# {title}{data}", {"role": "title"})
    facts = {"role": "question", "turn": asked.turn}
    return _markdown(f"question-{asked.turn}", prose.heading(asked, level="#") + data, facts)


def _requirements(recording: Recording, lock: Lock) -> Any:
    """The cell with the packages: those that were installed, and those of the kernel that the code imports."""
    pins = {each.name: each.version for each in lock.kernel}
    modules = {module for cell in recording.cells for module in imports(cell.code)}
    names = {*CORE, *map(_distribution, modules)} & pins.keys()
    wanted = {name: pins[name] for name in names} | {each.name: each.version for each in lock.packages}
    lines = [f'#     "{name}=={version}",' for name, version in sorted(wanted.items())]
    python = lock.python or ".".join(map(str, sys.version_info[:2]))
    lines = [f'# requires-python = ">={".".join(python.split(".")[:2])}"', "# dependencies = [", *lines, "# ]"]
    if lock.exclude_newer:
        lines += ["#", "# [tool.uv]", f'# exclude-newer = "{lock.exclude_newer}"']
    source = "\n".join(["# /// script", *lines, "# ///"])
    metadata = {"nbagent": {"role": "requirements"}, "jupyter": {"source_hidden": True}}
    return nodes.new_code_cell(source, id="requirements", metadata=metadata)


def _distribution(module: str) -> str:
    try:
        return canonicalize_name(distribution_for(module))
    except InstallRefused:
        # A module of the standard library, or a file of the session.
        return ""


def _turn(item: Asked | ModelReplied | FileUploaded | Cell) -> int:
    return 0 if isinstance(item, FileUploaded) else item.turn


def _answer(answer: Answer) -> Any:
    note = "" if answer.success else "\n\n*(This turn did not come to a successful end.)*"
    facts: dict[str, Any] = {"role": "answer", "turn": answer.turn}
    if answer.claims:
        facts["claims"] = to_builtins(answer.claims)
    if answer.check:
        facts["check"] = to_builtins(answer.check)
    note += "".join(f"\n\n*{clean_markdown(each)}*" for each in answer.remarks)
    text = f"### Answer\n\n{clean_markdown(answer.text) or '*Nothing.*'}{note}{prose.sources(answer.claims)}"
    return _markdown(f"answer-{answer.turn}", text, facts)


def _markdown(name: str, source: str, metadata: dict[str, Any]) -> Any:
    return nodes.new_markdown_cell(source, id=name, metadata={"nbagent": metadata})


def _code(cell: Cell, recording: Recording, widgets: Container[str], *, remark: str) -> list[Any]:
    """A cell that a re-run runs; before one that only defines a tool, the tool's source, which reads better."""
    metadata: dict[str, Any] = {"nbagent": facts(cell, recording)}
    if cell.status == "error":
        # By the second, juv and Jupytext leave it out of scripts, which would end with it.
        metadata["tags"] = ["raises-exception", "active-ipynb"]
    if origin := recording.origins.get(cell.cell):
        metadata["execution"] = timing(origin.at, cell.duration)
    alt = prose.alt(cell.code, remark, number=cell.cell)
    outputs = [described(each, alt) for each in shown(cell, recording, widgets=widgets)]
    made = nodes.new_code_cell(
        cell.code,
        id=f"cell-{cell.cell}",
        metadata=metadata,
        outputs=[_numbered(each, cell.execution_count) for each in outputs],
        execution_count=cell.execution_count,
    )
    if outputs or (tool := prose.tool(cell.code)) is None:
        return [made]
    metadata["jupyter"] = {"source_hidden": True}
    text = f"*{clean_markdown(tool.title)}*\n\n{_fenced(tool.source.strip())}"
    return [_markdown(f"tool-{cell.cell}", text, {"role": "tool", "turn": cell.turn}), made]


def timing(at: float, seconds: float) -> dict[str, str]:
    """When a cell began and ended, in the form in which JupyterLab and nbclient record it."""
    began, ended = (datetime.fromtimestamp(each, UTC).isoformat() for each in (at, at + seconds))
    return {
        "iopub.status.busy": began,
        "iopub.execute_input": began,
        "iopub.status.idle": ended,
        "shell.execute_reply": ended,
    }


def described(output: Output, alt: str) -> Output:
    """An output whose pictures say what they show, for who can't see them."""
    metadata = {
        mime: {"alt": alt, **output.get("metadata", {}).get(mime, {})}
        for mime in output.get("data", {})
        if mime.startswith("image/")
    }
    return {**output, "metadata": {**output["metadata"], **metadata}} if metadata else output


def _numbered(output: Output, count: int | None) -> Output:
    if output["output_type"] == "execute_result":
        # The count that code put into the output may be wrong: the output is this cell's.
        return {**output, "execution_count": count}
    return output


def _stopped(cell: Cell, recording: Recording) -> Any:
    """A cell that a re-run must leave out, as text: its code, and why."""
    why = cell.note or "It was still running when this notebook was written."
    source = f"{_fenced(cell.code)}\n\n*Not part of a re-run: {clean_markdown(why)}*"
    about = {**facts(cell, recording), "role": "stopped", "outputs": shown(cell, recording)}
    return _markdown(f"cell-{cell.cell}", source, about)


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


def facts(cell: Cell, recording: Recording) -> dict[str, Any]:
    """What a cell's metadata say of how it came about."""
    found: dict[str, Any] = {
        "role": "cell",
        "cell": cell.cell,
        "turn": cell.turn,
        "status": cell.status,
        "seconds": round(cell.duration, 3),
    }
    if (origin := recording.origins.get(cell.cell)) is not None:
        found |= {"tool": origin.tool, "approver": origin.approver, "time": utc(origin.at)}
    if model := recording.models.get(cell.turn):
        found["model"] = model
    if cell.note:
        found["note"] = cell.note
    if cell.installed:
        found["installed"] = [{"name": p.name, "version": p.version, "sha256": p.sha256} for p in cell.installed]
    return found


def _metadata(recording: Recording, widgets: dict[str, Any], lock: Lock) -> dict[str, Any]:
    started = recording.started
    # The kernel of a session that never started is one of the engine that needs least.
    engine = started.engine if started else registry.automatic()[-1].name
    kernelspec = (started.kernelspec if started else "") or f"nbagent-{engine}"
    metadata: dict[str, Any] = {
        "kernelspec": {
            "name": kernelspec,
            "display_name": registry.title(kernelspec.removeprefix("nbagent-") if "-" in kernelspec else engine),
            "language": "python",
        },
        "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
        "nbagent": {"version": __version__, **_provenance(recording, lock), "lock": to_builtins(lock)},
    }
    if started:
        metadata["language_info"]["version"] = started.python
    if widgets["state"]:
        metadata["widgets"] = {STATE_MIME: widgets}
    return metadata


def _provenance(recording: Recording, lock: Lock) -> dict[str, Any]:
    """The provenance: session, engine, models, data and packages, with their hashes."""
    started = recording.started
    packages = sorted(recording.packages.values(), key=lambda each: each.name)
    return {
        "session": started.session if started else "",
        "engine": started.engine if started else "",
        "trust": started.trust if started else "",
        **({"isolation": started.isolation} if started and started.isolation else {}),
        "environment": started.environment if started else "",
        "data": to_builtins(lock.data),
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
