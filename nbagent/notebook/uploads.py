"""Uploads in a notebook: a cell that describes each, and a cell that does it again."""

from __future__ import annotations

from typing import Any

from nbagent.core.events import FileUploaded
from nbagent.notebook import nodes
from nbagent.safety.sanitize import clean_markdown

_AGAIN = """\
def _upload(name, path, sha256, unpack):
    import hashlib, pathlib, shutil

    for found in (pathlib.Path("/tmp/data", name), pathlib.Path(name)):
        if found.is_file():
            with found.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
                    break
    else:
        raise FileNotFoundError(f"Put {{name}} beside this notebook, as it was uploaded: SHA-256 {{sha256}}")
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    shutil.unpack_archive(found, path) if unpack else shutil.copyfile(found, path)

_upload({name!r}, {path!r}, {sha256!r}, {unpack!r})
del _upload
get_ipython().execution_count -= 1  # so that the cells below keep their numbers"""


def upload_cells(upload: FileUploaded, number: int) -> list[Any]:
    """The two cells of an upload: what was uploaded and what a re-run needs, and code that does it again.

    Args:
        upload: What was uploaded.
        number: Its number within the session, from 1.
    """
    facts = {"role": "upload", "path": upload.path, "size": upload.size, "sha256": upload.sha256}
    if upload.source:
        needs = "A re-run takes the file from where it lay then, or from beside this notebook."
    else:
        needs = "It came from memory: a re-run needs it as a file of this name beside this notebook."
    what = f"**Uploaded** `{_code(upload.name)}` to `{_code(upload.path)}`"
    if upload.unpacked:
        what += f", unpacked to {upload.unpacked:,} files"
    text = f"{what} ({upload.size:,} bytes, SHA-256 `{upload.sha256}`). {needs}"
    source = _AGAIN.format(name=upload.name, path=upload.path, sha256=upload.sha256, unpack=bool(upload.unpacked))
    return [
        nodes.new_markdown_cell(clean_markdown(text), id=f"upload-{number}", metadata={"nbagent": facts}),
        nodes.new_code_cell(
            source,
            id=f"upload-{number}-again",
            metadata={"nbagent": {"role": "upload-again"}, "jupyter": {"source_hidden": True}},
        ),
    ]


def _code(name: str) -> str:
    """A name as code in Markdown."""
    return name.replace("`", "'")
