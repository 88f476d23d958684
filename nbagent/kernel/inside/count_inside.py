"""How often a text stands in a file, found out inside the sandbox."""

import os

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Bytes of a file that is looked through."""


def main(path: str, wanted: str) -> dict[str, object]:
    """The number of times that a text stands in a file without overlapping, or why that can't be told."""
    try:
        if not os.path.isfile(path):
            return {"error": "There is no such file." if not os.path.exists(path) else "It is no plain file."}
        if os.path.getsize(path) > MAX_FILE_BYTES:
            return {"error": f"It is too large to be edited: {os.path.getsize(path):,} bytes."}
        with open(path, "rb") as file:
            return {"count": file.read().decode().count(wanted)}
    except UnicodeDecodeError:
        return {"error": "It is not UTF-8 text."}
    except OSError as error:
        return {"error": f"{error.strerror}."}
