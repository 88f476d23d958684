"""What nbagent itself says among the outputs of cells, where no other run says it. Pure.

Each sentence is known word by word, and what it names is there in a fresh run: installed packages, saved files. All
else that begins so is an output.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import partial
from pathlib import PurePath

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from nbagent.core.events import Output
from nbagent.core.text import printable
from nbagent.notebook.compare.forms import text_of
from nbagent.safety.sanitize.outputs import VIEW_MIME
from nbagent.sandbox.inside.file_watch_inside import WHY_ODD
from nbagent.sandbox.paths import OUTPUT, WORKSPACE
from nbagent.sandbox.results.folder import inert_name, safe_name

LONGEST_NAME = 200
"""Characters of a file's name in a sentence."""
CHANGED, ADDED, WIDGET_CHANGED = (
    "What follows was changed",
    "What follows was added",
    "The widget that follows was changed",
)
"""What is said of late outputs."""
_INSTALLED = "nbagent: Installed "
"""How a client's kernel begins to say which packages a cell missed (`magics_inside.py`)."""
_SAVED = re.compile(r"nbagent: saved in [\w.~/-]{1,300}: (.{1,9000}?)(?: and ([\d,]{1,9}) more)?")
"""What it says of files that were saved (`results_inside.py`)."""
_LINE = re.compile(r"(?m)^nbagent: (.*)\n?")
_LEFT = re.compile(r"(.{1,400}) was not delivered: (.{1,400})\.")
_SIZE = r"[\d.e+]{1,12} (?:GB|MB|KB|bytes)"
_WHY = re.compile(
    "|".join(
        (
            *map(re.escape, (*WHY_ODD.values(), *(os.strerror(number) for number in errno.errorcode))),
            rf"it has {_SIZE}, and may have [\d,]{{1,9}} MB \(limit result_mb\)",
            rf"it has {_SIZE}, and a result at most [\d,]{{1,9}} MB \(limit result_mb; raise "
            r"it with NBAGENT_RESULT_MB or Limits\(result_mb=…\)\)",
            rf"it has {_SIZE}, and of the [\d,]{{1,9}} MB that (?:this session may keep on disk|a kernel may save) "
            rf"{_SIZE} are left \(limit session_mb\)",
            r"it could not be fetched, as it changed or went meanwhile|it changed while it was sent",
            r"it changed, or did not come in time|it is lost with the sandbox|another file is on its way",
            r"this kernel has saved too many files; restart it, or save them as one archive|it can't be a file's path",
            r"[\w.~/-]{1,300} is a link here|nbagent does not answer|there are too many",
        )
    )
)
_KILLED = re.compile(
    r"a program of this cell was killed: the sandbox ran out of memory \(limit [\d,]{1,9} MB\)\. "
    r"More is a setting of nbagent's: memory_mb\."
)
_COUNTED = re.compile(
    r"(?:so it is with )?([\d,]{1,9}) more files"
    r"(?:\.| come after the next cell\.| was not delivered: it is lost with the sandbox\.)"
)
_FIXED = re.compile(
    r"this sandbox has no network\. Which hosts it may reach is a setting of nbagent's: "
    r'allow_hosts = \["example\.org"\]; it holds from the next start of the kernel\.'
    r"|the host is not in allow_hosts, a setting of nbagent's, or refused it itself\."
)
"""What it prints to standard error and names nothing (`client_inside.py`)."""


def mark(what: str, during: int | None) -> Output:
    """A mark for a late output. It is an output of its own, so that the marked one can't style or hide it."""
    when = {None: "", 0: " while no cell ran,"}.get(during, f" while cell {during} ran,")
    text = f"[{what}{when} after this cell had ended.]"
    facts = {"late": {"during": during}}
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {"nbagent": facts}}


def is_mark(output: Output, following: Output | None) -> bool:
    """Whether an output only says that the next one came late, as its metadata does; and whether there is that one."""
    if following is None:
        return False
    metadata = output.get("metadata") or {}
    match metadata.get("nbagent"):
        case {"late": {"during": int() | None as during}}:
            data = following.get("data", {})
            # A view whose model was closed is left out, which a note says.
            is_widget = VIEW_MIME in data or "left_out" in str(following.get("metadata", {}).get("nbagent"))
            known = (CHANGED, ADDED, *([WIDGET_CHANGED] if is_widget else []))
            return _said(output) in (_said(mark(what, during)) for what in known)
    return False


def names_files(outputs: Iterable[Output]) -> bool:
    """Whether outputs may have sentences that name files."""
    texts = (_said(each) or text_of(each.get("text", "")) for each in outputs)
    return any(sign in each for each in texts for sign in ("nbagent: saved in ", " was not delivered: ", " more files"))


def without_notes(
    outputs: Iterable[Output], *, versions: Mapping[str, str], saved: Collection[str], ran_out: bool = False
) -> Iterator[Output]:
    """The outputs of a cell without what nbagent says.

    Args:
        outputs: As a notebook has them.
        versions: The packages of a fresh run by their names, normalised.
        saved: The names of the files that the cell saved in there, from the folder in which it saved them.
        ran_out: Whether a program of the cell was killed in there, as the sandbox ran out of memory.
    """
    for each in outputs:
        if each["output_type"] == "stream" and each.get("name") == "stderr":
            text = text_of(each.get("text", ""))
            rest = _LINE.sub(partial(_line, saved=saved, ran_out=ran_out), text)
            if rest or not text:
                yield {**each, "text": rest} if rest != text else each
        elif not (is_of_installs(each, versions) or is_of_files(each, saved)):
            yield each


def is_of_installs(output: Output, versions: Mapping[str, str]) -> bool:
    """Whether an output only says that packages were installed, each of which a fresh run has in that version."""
    said = _said(output)
    if not said.startswith(_INSTALLED):
        return False
    packages = [each.split(" ") for each in said.removeprefix(_INSTALLED).removesuffix(".").split(", ")]
    return all(len(each) == 2 and _is_version(each[1], versions.get(canonicalize_name(each[0]))) for each in packages)


def _is_version(text: str, version: str | None) -> bool:
    try:
        return version is not None and Version(text) == Version(version)
    except InvalidVersion:
        return text == version


def is_of_files(output: Output, saved: Collection[str]) -> bool:
    """Whether an output only says that files were saved, each of which the cell saved in a fresh run."""
    found = _SAVED.fullmatch(_said(output))
    if found is None or int((found[2] or "0").replace(",", "") or 0) > len(saved):
        return False
    return all(_is_saved(each, saved) for each in found[1].split(", "))


def shown(name: str) -> str:
    """A file's name as it stands in a sentence."""
    return printable(name)[:LONGEST_NAME]


def _is_saved(named: str, saved: Container[str]) -> bool:
    name, renamed, landed = named.partition(" as ")
    if name not in saved:
        return False
    parts = [inert_name(safe_name(each)) for each in name.split("/")]
    last = PurePath(parts[-1])
    other = rf"{re.escape(last.stem)}(?:-\d{{1,4}})?{re.escape(last.suffix)}"
    *above, last_part = landed.split("/")
    return not renamed or (above == parts[:-1] and re.fullmatch(other, last_part) is not None)


def _line(found: re.Match[str], *, saved: Collection[str], ran_out: bool) -> str:
    """A line of standard error; nothing if it is one of nbagent's."""
    is_note = _FIXED.fullmatch(found[1]) is not None or (ran_out and _KILLED.fullmatch(found[1]) is not None)
    if counted := _COUNTED.fullmatch(found[1]):
        is_note = int(counted[1].replace(",", "") or 0) <= len(saved)
    elif left := _LEFT.fullmatch(found[1]):
        name = left[1].removeprefix(f"{OUTPUT}/").removeprefix(f"{WORKSPACE}/")
        is_note = name in saved and _WHY.fullmatch(left[2]) is not None
    return "" if is_note else found[0]


def _said(output: Output) -> str:
    """The text of an output that shows nothing else."""
    data = output.get("data") or {}
    return text_of(data["text/plain"]) if list(data) == ["text/plain"] else ""
