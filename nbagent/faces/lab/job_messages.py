"""The bodies of requests for jobs, which are exports and verifications, and of what comes of them."""

from __future__ import annotations

from typing import Literal

import msgspec

from nbagent.faces.lab.messages import Refusal


class ExportWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page may say of an export; see `nbagent export` for the last three.

    Attributes:
        path: Below the server's root folder; its ending says the form: .ipynb, .html, .md, .py or .zip.
        force: Whether a file that is there is replaced.
        keep_attempts: Whether failed attempts stay; if not, a run of the rest must show the same without them.
        environment: Whether the files of its packages are written too.
    """

    path: str
    force: bool = False
    keep_attempts: bool = False
    environment: bool = False


class VerifyWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page may say of a verification.

    Attributes:
        path: The notebook's, below the server's root folder.
        sweep: Whether it is run on other terms too, to find what its cells depend on.
        write: Whether the result is written into the notebook.
    """

    path: str
    sweep: bool = False
    write: bool = False


class Exported(msgspec.Struct, frozen=True):
    """An export that was written; `notes` are sentences for a person."""

    path: str
    notes: list[str]


class DifferenceEntry(msgspec.Struct, frozen=True):
    """Something that differs; see `nbagent.notebook.compare.texts.Difference`."""

    what: str
    where: str
    stored: str
    fresh: str
    cause: str = ""


class VerifiedCell(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one code cell; see `nbagent.notebook.proof.CellProof`."""

    id: str
    number: int
    result: str
    note: str = ""
    differences: list[DifferenceEntry] = []
    excused: list[str] = []
    depends: list[str] = []
    seconds: float = 0.0


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a notebook: `same`, `differs`, or `not run` with the error."""

    notebook: str
    result: str
    error: str = ""
    problems: list[str] = []
    notes: list[str] = []
    engine: str = ""
    tolerance: float = 0.0
    seconds: float = 0.0
    runs: int = 0
    cells: list[VerifiedCell] = []


class JobEntry(msgspec.Struct, frozen=True):
    """A job: an export or a verification.

    Attributes:
        exported: The result of an export.
        verified: The result of a verification, also of one that found a difference.
        refusal: Why it failed.
        pictures: The names of the pictures of figures that differ, `CELL-NUMBER.png`: stored, fresh, difference.
    """

    job: str
    state: Literal["running", "done", "failed"]
    exported: Exported | None = None
    verified: Verified | None = None
    refusal: Refusal | None = None
    pictures: list[str] = []
