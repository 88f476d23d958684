"""Profiles data files from all that is in them, inside the sandbox: `kernel/describe.py` sends this source there.

It is sent together with the modules that it imports, as one. Never imported on the host.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
import threading
from typing import Any

from nbagent.kernel.inside.clock_inside import Clock, Watch
from nbagent.kernel.inside.columns_inside import brief
from nbagent.kernel.inside.documents_inside import archive, compressed, database, scanned, stata, tables_ahead
from nbagent.kernel.inside.frames_inside import spaced_table
from nbagent.kernel.inside.json_inside import json_file
from nbagent.kernel.inside.layouts_inside import SLOW, gapped_table, laid_out
from nbagent.kernel.inside.notes_inside import draws_dictionary, is_note, may_be_note, notes_beside
from nbagent.kernel.inside.pages_inside import NOTE_BYTES, page
from nbagent.kernel.inside.stacked_inside import stacked_tables
from nbagent.kernel.inside.table_layout_inside import COMMENTS
from nbagent.kernel.inside.text_forms_inside import encoding_of, table_separator
from nbagent.kernel.inside.text_tables_inside import text_table
from nbagent.kernel.inside.workbooks_inside import workbook
from nbagent.kernel.inside.yaml_inside import yaml_file

MIN_FILE_SECONDS = 3.0
"""Seconds that a file gets at least, while there are any: the first table waits for its library to be imported."""
MIN_PAGE_SECONDS = 8.0
"""The same for what pandas reads, which takes long to be imported."""
JOIN_SECONDS = 0.5
"""Seconds until it is looked again what others have taken of the time for a file."""
SEND_SECONDS = 1.0
"""For what is published to be under way; it takes less than a thousandth of that."""
MAX_LATE = 3
"""Files that may take too long, each of which still occupies the kernel."""
LATE_NOTE = "took too long to read"
NO_TIME_NOTE = "not profiled: there was no time left"
TEXT_BYTES = 1_500
HEAD_LINES = 5
"""Lines of comments ahead of a text that are shown."""
_MARKUP = re.compile(r"\s*(<\?[^>]{0,200}\?>)?\s*<!--.*?-->\s*", re.DOTALL)
"""The comment with which a text in XML begins, which is its licence more often than not."""
LEAST_LINES = 8
"""Lines from which it is no chance that all have the same length."""
PACKED = {b"BZh": "bz2", b"\xfd7zXZ\0": "lzma"}
"""How files begin that are packed, each alone, by the module that unpacks it."""
PANDAS = (".html", ".htm", ".xhtml", ".dta")
"""Endings of files that are read by pandas."""
IMAGE_ENDINGS = frozenset(".png .jpg .jpeg .gif .bmp .webp .tif .tiff".split())


def main(paths: list[str], seconds: float, piece: int, named: int = 0) -> int:
    """Profile each file within its share of the time that is left.

    The first `named` may each take half of it: a question is about these, so that others rather get none.

    Returns:
        How many they are. Each is published when it is begun and when it is there, so that what is there is known even
        if this never comes to its end.
    """
    watch = Watch()
    late = 0
    for number, path in enumerate(paths):
        left = seconds - watch.now()
        least = MIN_PAGE_SECONDS if path.lower().endswith(PANDAS) else MIN_FILE_SECONDS
        share = max(left / (len(paths) - number), min(left, least))
        share = max(share, left / 2) if number < named else share
        # What is no UTF-8 can't be sent to a model.
        name = {"path": os.fsencode(path).decode("utf-8", "replace")}
        publish({**name, "note": LATE_NOTE})
        found = within(path, share, piece, watch) if left > 0 and late < MAX_LATE else {"note": NO_TIME_NOTE}
        late += found.get("note") == LATE_NOTE
        publish({**name, **found})
    return len(paths)


def within(path: str, seconds: float, piece: int, watch: Watch) -> dict[str, Any]:
    """One profile; a library that takes too long is left behind, since nothing can stop it.

    Of a database whose rows take too long, the tables and columns are told.
    """
    box: list[dict[str, Any]] = []
    ahead: dict[str, Any] = {}

    def read() -> None:
        ahead.update(tables_ahead(path))
        box.append(one(path, clock))

    end = watch.now() + seconds
    clock = Clock(end - seconds * 0.4, piece, watch.now)
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while reader.is_alive() and (left := end - watch.now()) > 0:
        reader.join(min(left, JOIN_SECONDS))
    return box[0] if box else {**ahead, "note": LATE_NOTE}


def publish(found: dict[str, Any]) -> None:
    """Send a profile ahead of the result, and go on when it is under way."""
    from IPython import get_ipython

    kernel = get_ipython().kernel
    content = json.dumps(found).encode()
    kernel.session.send(kernel.iopub_socket, "nbagent_chunk", {}, parent=kernel.get_parent(), buffers=[content])
    # It is another thread that sends. A library that keeps all of Python from running must not come before it.
    sent = threading.Event()
    kernel.iopub_socket.io_thread.schedule(sent.set)
    sent.wait(SEND_SECONDS)


def one(path: str, clock: Clock) -> dict[str, Any]:
    """What there is to know of one file, or why that can't be known."""
    found: dict[str, Any] = {}
    try:
        status = os.stat(path)
        found["size"] = status.st_size
        if stat.S_ISDIR(status.st_mode):
            found["note"] = "an empty folder" if not os.listdir(path) else "a folder without plain files"
        elif not stat.S_ISREG(status.st_mode):
            # Reading a pipe would wait for whoever writes to it.
            found["note"] = "not a plain file"
        else:
            found |= kind_of(path, status.st_size, clock)
    except BaseException as error:  # a panic of a library in Rust is no Exception
        lines = str(error).splitlines() or [""]
        found["note"] = f"can't be read: {type(error).__name__}: {brief(lines[0])}"
    return found


def kind_of(path: str, size: int, clock: Clock) -> dict[str, Any]:
    """The profile of a plain file, by its first bytes and its ending."""
    base = path.lower().removesuffix(".gz")
    ending = os.path.splitext(base)[1]
    with open(path, "rb") as file:
        start = file.read(NOTE_BYTES)
    is_text = b"\0" not in start[:4096] or start.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not start:
        return {"kind": "empty file", "note": "0 bytes"}
    if start.startswith(b"SQLite format 3\0"):
        return database(path, clock)
    for magic, module in PACKED.items():
        if start.startswith(magic):
            return compressed(path, module, clock, kind_of)
    if ending == ".dta" and size < clock.whole:
        return {"kind": "Stata", **stata(path)}
    if start.startswith(b"PAR1"):
        return {"kind": "Parquet", **scanned("Parquet", path, clock)}
    if ending in (".csv", ".tsv", ".tab", ".psv") and (is_text or path.lower().endswith(".gz")):
        is_spaced = is_text and size < clock.whole and not table_separator(start, 0.4)
        several = stacked_tables(path, start, clock) if is_text and size == len(start) else {}
        spaced = gapped_table(path, size, start, SLOW) or spaced_table(path, start) if is_spaced and not several else {}
        table = spaced or text_table(path, size, clock)
        found = {"kind": "CSV", **(several or {"tables": [table]})}
        # A dictionary of the variables says more by its rows than by its columns.
        is_dictionary = is_note(path) and "manual" not in os.path.basename(path).lower()
        return found | (
            {"is_note": True, "text": start[:4096].decode(encoding_of(start), "replace")} if is_dictionary else {}
        )
    if ending in (".ndjson", ".jsonl") and is_text:
        return {"kind": "JSON Lines", **scanned("JSON Lines", path, clock)}
    if ending in (".arrow", ".feather", ".ipc"):
        return {"kind": "Arrow", **scanned("Arrow", path, clock)}
    if ending in (".xlsx", ".xls", ".xlsb", ".xlsm", ".ods") and size < clock.whole:
        return {"kind": "Excel", **workbook(path, clock)}
    if start.startswith(b"PK\x03\x04"):
        return archive(path, clock, size_of, kind_of)
    if ending in (".json", ".geojson") and is_text:
        return json_file(path, size, clock)
    if ending in (".yaml", ".yml") and is_text and size < clock.whole:
        return yaml_file(path, clock)
    if ending in (".html", ".htm", ".xhtml") and is_text:
        return page(path, size, clock)
    if ending in IMAGE_ENDINGS:
        return image_size(path)
    if not is_text:
        return {"kind": "binary file", "note": f"begins with {start[:8]!r}"}
    return text_file(path, size, clock, start)


def text_file(path: str, size: int, clock: Clock, start: bytes) -> dict[str, Any]:
    """A note, nearly whole; a table by another name; or how a text begins."""
    ending = os.path.splitext(path.lower())[1]
    whole = start if size <= len(start) else start[: start.rfind(b"\n") + 1]
    text = start.decode(encoding_of(start), "replace").removeprefix("\ufeff")
    explains = is_note(path) or (may_be_note(path) and draws_dictionary(text))
    if not explains and ending != ".md" and (separator := table_separator(whole)):
        return {"kind": "CSV", "tables": [text_table(path, size, clock, separator=separator)]}
    if not explains and size < clock.whole:
        table = laid_out(path, size, start, notes_beside(os.path.dirname(path)))
        table = table or gapped_table(path, size, start, SLOW) or spaced_table(path, start)
        if table:
            return {"kind": "text", "tables": [table]}
    # What is too long to be read by anybody is data, such as a listing, unless its name says that it explains some.
    is_one = is_note(path) or ending == ".md" or (may_be_note(path) and size <= NOTE_BYTES)
    found = {"kind": "text", "is_note": is_one, "text": text[:NOTE_BYTES] if is_one else text_begin(text)[:TEXT_BYTES]}
    lines = text.splitlines()[1:-1]
    if not is_one and len(lines) >= LEAST_LINES and lines[0].strip() and len(set(map(len, lines))) == 1:
        found["note"] = f"lines of {len(lines[0])} characters each: columns by their places"
    return found


def text_begin(text: str) -> str:
    """How a text begins, of long comments ahead of it only their first line and their last ones, which tell of it."""
    if licence := _MARKUP.match(text):
        text = (licence[1] or "") + text[licence.end() :]
    lines = text.splitlines()
    count = sum(1 for _ in itertools.takewhile(lambda line: not line.strip() or line.startswith(COMMENTS), lines))
    if count <= HEAD_LINES or count == len(lines):
        return text
    first = next((line for line in lines if line.strip("#/%-*! \t")), "")
    return "\n".join([first, "…", *lines[count - HEAD_LINES + 1 :]])


def image_size(path: str) -> dict[str, Any]:
    """The size of an image in pixels."""
    from PIL import Image

    with Image.open(path) as image:
        return {"kind": f"{image.format} image", "note": f"{image.width}×{image.height} pixels"}


def size_of(size: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{size:.0f} {unit}"
        size = size / 1000
    return f"{size:.3g} GB"
