"""Tells what a verification found: in the notebook itself, as JUnit's XML, and as what JSON can hold."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from nbagent import __version__
from nbagent.core import fileio
from nbagent.core.errors import StoreError
from nbagent.core.text import safe
from nbagent.notebook.document import Document
from nbagent.notebook.lock import utc
from nbagent.notebook.proof import CellProof, Proof

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def plain(proof: Proof, *, tolerance: float) -> dict[str, Any]:
    """All that was found, as JSON has it."""
    return {
        "notebook": proof.name,
        "result": proof.result,
        "error": proof.error,
        "problems": proof.problems,
        "notes": proof.notes,
        "engine": proof.engine,
        "tolerance": tolerance,
        "seconds": round(proof.seconds, 3),
        "runs": proof.runs,
        "cells": [_cell(each) for each in proof.cells],
    }


def _cell(cell: CellProof) -> dict[str, Any]:
    return {
        "id": cell.id,
        "number": cell.number,
        "result": cell.result,
        "note": cell.note,
        "differences": [{**each._asdict()} for each in cell.differences],
        "excused": cell.excused,
        "depends": cell.depends,
        "seconds": round(cell.seconds, 3),
    }


def told(cell: CellProof) -> list[str]:
    """What there is to say of a cell, in lines."""
    lines = [cell.note] if cell.note else []
    for each in cell.differences:
        lines.append(f"{each} ({each.cause})" if each.cause else str(each))
    return [*lines, *(f"depends on {each}" for each in cell.depends)]


def write_into(document: Document, path: Path, proof: Proof) -> None:
    """Write the result into a notebook, as `metadata.nbagent.verified`; nothing else in it changes.

    Raises:
        StoreError: It can't be written; it is as it was.
    """
    notebook = document.raw
    notebook.metadata.setdefault("nbagent", {})["verified"] = {
        "at": utc(proof.started),
        "by": f"nbagent {__version__}",
        "engine": proof.engine,
        "result": proof.result,
        "cells": {each.id: each.result for each in proof.cells if each.result != "same"},
        "problems": proof.problems,
        "edited": [each.id for each in document.cells if each.is_edited],
    }
    try:
        text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"
        data = text.encode()
    except ValueError as error:
        raise StoreError(f"{path} can't be written: it has what no JSON can hold ({str(error)[:80]}).") from error
    fileio.save(path, data)


def junit(proofs: Sequence[Proof]) -> bytes:
    """JUnit's XML, with a suite for each notebook and a case for each cell."""
    whole = Xml.Element("testsuites", name="nbagent verify")
    for proof in proofs:
        suite = Xml.SubElement(whole, "testsuite", name=_text(proof.name), time=f"{proof.seconds:.3f}")
        cases = [
            _case(suite, "environment and data", proof.problems, proof.error),
            *(_case(suite, each.name, told(each) if each.result != "same" else [], "", each) for each in proof.cells),
        ]
        for name in ("failure", "error"):
            count = sum(each.find(name) is not None for each in cases)
            suite.set(f"{name}s", str(count))
        suite.set("tests", str(len(cases)))
    text: str = Xml.tostring(whole, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _case(
    suite: Xml.Element, name: str, problems: Sequence[str], error: str, cell: CellProof | None = None
) -> Xml.Element:
    case = Xml.SubElement(suite, "testcase", name=_text(name), classname=suite.get("name", ""))
    case.set("time", f"{cell.seconds if cell else 0:.3f}")
    if problems:
        Xml.SubElement(case, "failure", message=_text(problems[0])).text = _text("\n".join(problems))
    if error:
        Xml.SubElement(case, "error", message=_text(error)).text = _text(error)
    return case


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", safe(text))
