"""The cells that put files where a notebook's code looks for them: uploads, and data outside of a sandbox."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nbagent.core.events import FileUploaded
from nbagent.notebook import nodes
from nbagent.safety.sanitize import clean_markdown
from nbagent.sandbox.paths import OUTPUT, RUN

_AGAIN = """\
def _upload(name, path, sha256, unpack):
    import hashlib, pathlib, shutil, tarfile

    for found in (pathlib.Path("/tmp/data", name), pathlib.Path(name)):
        if found.is_file():
            with found.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
                    break
    else:
        raise FileNotFoundError(f"Put {{name}} beside this notebook, as it was uploaded: SHA-256 {{sha256}}")
    place = pathlib.Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        place.unlink()  # a sandbox's link to data of this name, which nobody can write
    if unpack:  # outside of a sandbox, too: nothing lands beside the folder
        has_filter = hasattr(tarfile, "data_filter") and tarfile.is_tarfile(found)
        shutil.unpack_archive(found, path, **({{"filter": "data"}} if has_filter else {{}}))
    else:
        shutil.copyfile(found, path)
    if pathlib.Path({run!r}).exists() and "get_ipython" in globals():
        shell, history = get_ipython(), get_ipython().history_manager
        if history.input_hist_raw[-1].startswith("def _upload("):  # the cells below keep their numbers
            shell.execution_count -= 1
            del history.input_hist_raw[-1:], history.input_hist_parsed[-1:]

_upload({name!r}, {path!r}, {sha256!r}, {unpack!r})
del _upload"""
_PLACES = """\
def _places(paths):
    # For a run without nbagent's sandbox, in which all of this is there: data is taken from beside this file.
    import os

    here = os.path.dirname(os.path.abspath(globals().get("__file__", "here")))
    for path in paths:
        beside = os.path.join(here, os.path.basename(path))
        if os.path.exists(beside) and (os.path.islink(path) or not os.path.lexists(path)):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.islink(path):
                os.unlink(path)
            os.symlink(beside, path)
{plain}    os.makedirs({output!r}, exist_ok=True)
    for folder in () if os.path.exists({run!r}) else {{*map(os.path.dirname, paths), {output!r}}}:
        if os.path.lexists(folder) and os.lstat(folder).st_uid != os.getuid():
            # Its owner could have put other data there, or links that lead what is saved over other files.
            raise PermissionError(f"{{folder}} is another user's: have it removed first")
    if os.path.exists({run!r}) and "get_ipython" in globals():
        shell, history = get_ipython(), get_ipython().history_manager
        if history.input_hist_raw[-1].startswith("def _places("):  # the cells below keep their numbers
            shell.execution_count -= 1
            del history.input_hist_raw[-1:], history.input_hist_parsed[-1:]

_places({paths!r})
del _places"""
_PLAIN = """\
        if not os.path.lexists(os.path.basename(path)):
            os.symlink(path, os.path.basename(path))
"""


def names_alone(path: str, code: str) -> bool:
    """Whether code seems to name a file or folder by its name without the folder above it."""
    name = path.rpartition("/")[2]
    return re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", code) is not None


def places_cell(paths: Sequence[str], *, plain: bool) -> Any:
    """The hidden cell by which a notebook finds its data and /tmp/output in a plain Jupyter or a plain Python too.

    Args:
        paths: Where its code reads the data.
        plain: Whether it reads them by their names alone, too.
    """
    source = _PLACES.format(paths=list(paths), plain=_PLAIN if plain else "", output=OUTPUT, run=RUN)
    return _hidden(source, id="places", role="places")


def upload_cells(upload: FileUploaded, number: int) -> list[Any]:
    """The two cells of an upload: what was uploaded and what a re-run needs, and code that does it again."""
    facts = {"role": "upload", "path": upload.path, "size": upload.size, "sha256": upload.sha256}
    if upload.source:
        needs = "A re-run takes the file from where it lay then, or from beside this notebook."
    else:
        needs = "It came from memory: a re-run needs it as a file of this name beside this notebook."
    what = f"**Uploaded** `{_code(upload.name)}` to `{_code(upload.path)}`"
    if upload.unpacked:
        what += f", unpacked to {upload.unpacked:,} files"
    text = f"{what} ({upload.size:,} bytes, SHA-256 `{upload.sha256}`). {needs}"
    unpack = bool(upload.unpacked)
    source = _AGAIN.format(name=upload.name, path=upload.path, sha256=upload.sha256, unpack=unpack, run=RUN)
    return [
        nodes.new_markdown_cell(clean_markdown(text), id=f"upload-{number}", metadata={"nbagent": facts}),
        _hidden(source, id=f"upload-{number}-again", role="upload-again"),
    ]


def _hidden(source: str, *, id: str, role: str) -> Any:
    metadata = {"nbagent": {"role": role}, "jupyter": {"source_hidden": True}}
    return nodes.new_code_cell(source, id=id, metadata=metadata)


def _code(name: str) -> str:
    """A name as code in Markdown."""
    return name.replace("`", "'")
