"""Reads a notebook, anybody's: its cells with their tags, what they showed, and what nbagent wrote into it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from nbagent.core.errors import UsageError
from nbagent.core.events import Output
from nbagent.core.text import one_line
from nbagent.notebook.compare.streams import USUAL, WHOLE, as_kept
from nbagent.notebook.lock import Lock
from nbagent.notebook.place import digest, source_digest
from nbagent.safety.sanitize.outputs import VIEW_MIME
from nbagent.safety.sanitize.widgets import STATE_MIME

MAY_FAIL, SKIPPED = "raises-exception", "skip-execution"
"""Tags of cells, as in nbclient and Jupyter Book."""
_ADDED = ("requirements", "places", "upload-again")
"""Roles of the cells that an export adds, as it names them in their metadata."""
LATEST = 2**33
"""Seconds since the epoch, in the year 2242: no notebook was made after that."""
_BLOCK = re.compile(r"\s*# /// script\n(?:#.*\n)*# ///\s*")
_INSTALL = re.compile(r"\s*[%!]\s*(?:uv\s+)?(?:pip|conda|mamba)\s+install\s.*")


class _Shown(msgspec.Struct):
    """What is read of an output."""

    output_type: str
    data: dict[str, Any] = {}
    text: str | list[str] = ""
    traceback: list[str] = []


class _Metadata(msgspec.Struct):
    """What is read of metadata."""

    nbagent: dict[str, Any] = {}
    tags: list[str] = []
    execution: dict[str, Any] = {}


class _Cell(msgspec.Struct):
    """What is read of a cell."""

    cell_type: str
    source: str
    metadata: _Metadata
    outputs: list[_Shown] = []
    execution_count: int | None = None


class _Form(msgspec.Struct):
    """What a notebook has to be for all of this to be read."""

    cells: list[_Cell]
    metadata: _Metadata


def name_of(id: str, number: int) -> str:
    """What a person calls a cell: its place, if its id is one of Jupyter's random ones, which no page shows."""
    return f"code cell {number}" if re.fullmatch(r"[0-9a-f-]{8,36}", id) else id


@dataclass(frozen=True, kw_only=True)
class DocumentCell:
    """A code cell that runs.

    Attributes:
        id: Its name in the notebook.
        number: Its place among the code cells, from 1.
        code: Its source.
        tags: Its tags.
        outputs: What it showed, as nbformat 4 has it.
        count: Its execution count; None if it never ran.
        facts: What nbagent wrote of it.
        at: When it ran, in seconds since the epoch; None if nothing says so.
    """

    id: str
    number: int
    code: str
    tags: frozenset[str] = frozenset()
    outputs: list[Output] = field(default_factory=list)
    count: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    at: float | None = None

    @property
    def name(self) -> str:
        """What a person calls it."""
        return name_of(self.id, self.number)

    @property
    def has_run(self) -> bool:
        """Whether it ran when the notebook was saved."""
        return bool(self.outputs) or self.count is not None or "status" in self.facts

    @property
    def ended(self) -> float | None:
        """When its run ended, in seconds since the epoch, as far as that is known."""
        seconds = self.facts.get("seconds")
        return self.at and self.at + (seconds if isinstance(seconds, float) and 0 < seconds < LATEST else 0.0)

    @property
    def is_added(self) -> bool:
        """Whether an export added it for other programs: no cell of the session, which counted only its own."""
        return self.facts.get("role") in _ADDED

    @property
    def may_fail(self) -> bool:
        """Whether an error of its code is expected: by its tag, or since it showed one before."""
        return MAY_FAIL in self.tags or any(each["output_type"] == "error" for each in self.outputs)

    @property
    def is_block(self) -> bool:
        """Whether it only names packages, as PEP 723 has it."""
        return _BLOCK.fullmatch(self.code + "\n") is not None

    @property
    def installs(self) -> bool:
        """Whether it only installs packages: what that prints is no result."""
        lines = [each for each in self.code.splitlines() if each.strip() and not each.lstrip().startswith("#")]
        return bool(lines) and all(map(_INSTALL.fullmatch, lines))

    @property
    def also_installs(self) -> bool:
        """Whether it installs packages."""
        return any(map(_INSTALL.fullmatch, self.code.splitlines()))

    @property
    def is_edited(self) -> bool:
        """Whether its source is another than the one that nbagent wrote."""
        digest = self.facts.get("sha256")
        return isinstance(digest, str) and digest != source_digest(self.code)


@dataclass(frozen=True, kw_only=True)
class Document:
    """A notebook.

    Attributes:
        name: What it is called.
        cells: Its code cells that run: neither empty nor tagged to be skipped.
        facts: What nbagent wrote into its metadata; empty in anybody else's.
        lock: Its lock; None without one.
        raw: The whole, an nbformat node.
        skipped: Its code cells that a tag keeps from running.
    """

    name: str
    cells: list[DocumentCell]
    facts: Mapping[str, Any]
    lock: Lock | None
    raw: Any
    skipped: list[DocumentCell] = field(default_factory=list)

    @property
    def has_run(self) -> bool:
        """Whether anything of it ever ran; or there is nothing to run, as in one of text."""
        return any(each.has_run for each in self.cells) or all(each.is_block for each in self.cells)

    @property
    def is_ours(self) -> bool:
        """Whether nbagent wrote it."""
        return "version" in self.facts

    @property
    def widgets(self) -> Mapping[str, Any]:
        """The models of its widgets, by their names."""
        return _part(_part(_part(_plain(self.raw.metadata), "widgets"), STATE_MIME), "state")

    @property
    def has_other_views(self) -> bool:
        """Whether a cell shows a widget whose state isn't there."""
        views = (output.get("data", {}).get(VIEW_MIME) for cell in self.cells for output in cell.outputs)
        known = self.widgets
        return any(str(_part({"view": each}, "view").get("model_id")) not in known for each in views if each)

    def comparable(self, cell: DocumentCell) -> list[Output]:
        """The outputs of a cell as they are compared: printed text as nbagent keeps it; an export's is cut already."""
        return as_kept(cell.outputs, WHOLE if self.is_ours else USUAL)

    @property
    def language(self) -> str:
        """The language of its code, as far as it says so."""
        info, spec = (_part(self.raw.metadata, name) for name in ("language_info", "kernelspec"))
        return str(info.get("name") or spec.get("language") or {"ir": "R"}.get(str(spec.get("name")), ""))

    @property
    def kernelspec(self) -> str:
        """The name of the kernelspec that it was made with, as it says; empty if it doesn't."""
        return str(_part(self.raw.metadata, "kernelspec").get("name") or "")

    @property
    def allows_errors(self) -> bool:
        """Whether each of its cells may fail, as its metadata says in the form of MyST-NB and Jupyter Book."""
        return _part(self.raw.metadata, "execution").get("allow_errors") is True

    def check_python(self) -> None:
        """Raise a `UsageError` if its code is in another language than Python."""
        if self.language and "python" not in self.language.lower():
            raise UsageError(f"{self.name} is in {one_line(self.language, 40)}, and nbagent runs Python only.")

    @property
    def edits(self) -> list[str]:
        """What of an export was changed since, but for the code of its cells, in sentences."""
        found, same = [], True
        for cell in self.raw.cells:
            known = cell.metadata.get("nbagent", {}).get("sha256")
            if known is not None and known != source_digest(cell.source):
                same = False
                if cell.cell_type != "code":
                    found.append(f"The text {cell.get('id')} was edited since nbagent wrote it.")
            elif known is not None and SKIPPED in cell.metadata.get("tags", []):
                found.append(f"{cell.get('id')} was tagged to be skipped since nbagent wrote it.")
        if self.lock and self.lock.data and self.facts.get("data") != msgspec.to_builtins(self.lock.data):
            found.append("What the notebook says of its data was edited since nbagent wrote it.")
        known, ids = self.facts.get("cells"), [str(cell.get("id")) for cell in self.raw.cells]
        moves = list(_moves([str(each) for each in known], ids)) if isinstance(known, list) else []
        written = self.facts.get("cells_sha256")
        if (
            same
            and not moves
            and written
            and written != digest((each.cell_type, each.source) for each in self.raw.cells)
        ):
            moves = ["Cells were added, removed or moved since nbagent wrote the notebook."]
        return found + moves


def _moves(known: list[str], ids: list[str]) -> Iterator[str]:
    """What became of the cells by their ids, in sentences."""
    before, now = set(known), set(ids)
    for told, names in (
        ("removed from", [each for each in known if each not in now]),
        ("added to", [each for each in ids if each not in before]),
    ):
        if names:
            yield f"Cells were {told} the notebook since nbagent wrote it: {', '.join(names)}."
    if [each for each in known if each in now] != [each for each in ids if each in before]:
        yield "Cells were moved since nbagent wrote the notebook."


def parse(text: str, *, name: str) -> Document:
    """Read a notebook.

    Raises:
        UsageError: It is none.
    """
    import nbformat

    try:
        with warnings.catch_warnings():
            # Of cells without an id, or with the same one: nothing that matters here.
            warnings.simplefilter("ignore")
            notebook = nbformat.reads(text, as_version=4)
        msgspec.convert(_plain(notebook), _Form)
        return of(notebook, name=name)
    except Exception as error:
        said = isinstance(error, nbformat.reader.NotJSONError | msgspec.ValidationError)
        why = str(error).splitlines()[0][:200] if said else "it has not the form that Jupyter gives one."
        raise UsageError(f"{name} is not a notebook: {why}") from error


def of(notebook: Any, *, name: str) -> Document:
    """A notebook that was read, an nbformat node."""
    code = [each for each in notebook.cells if each.cell_type == "code"]
    cells = [_cell(each, number) for number, each in enumerate(code, 1)]
    facts = notebook.metadata.get("nbagent", {})
    lock = msgspec.convert(_plain(facts["lock"]), Lock) if "lock" in facts else None
    # A cell whose code was taken out may still show what it showed.
    given = [each for each in cells if each.code.strip() or each.outputs]
    running, skipped = ([each for each in given if (SKIPPED in each.tags) is tagged] for tagged in (False, True))
    return Document(name=name, cells=running, facts=_plain(facts), lock=lock, raw=notebook, skipped=skipped)


def _cell(cell: Any, number: int) -> DocumentCell:
    facts = cell.metadata.get("nbagent", {})
    return DocumentCell(
        id=str(cell.get("id") or f"code-{number}"),
        number=number,
        code=cell.source,
        tags=frozenset(cell.metadata.get("tags", [])),
        outputs=_plain(cell.outputs),
        count=cell.execution_count,
        facts=_plain(facts),
        at=_moment(cell.metadata),
    )


def _moment(metadata: Any) -> float | None:
    """When a cell ran, as nbagent or JupyterLab wrote it down."""
    written = (metadata.get("nbagent", {}).get("time"), metadata.get("execution", {}).get("iopub.execute_input"))
    for text in written:
        try:
            moment = datetime.fromisoformat(text).timestamp()
        except (TypeError, ValueError, OverflowError):
            continue
        if 0 <= moment < LATEST:
            return moment
    return None


def _part(metadata: Any, name: str) -> Mapping[str, Any]:
    """What metadata has by a name, if it is of the right form."""
    found = metadata.get(name)
    return found if isinstance(found, dict) else {}


def _plain(value: Any) -> Any:
    """Nodes of nbformat as plain dicts and lists."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
