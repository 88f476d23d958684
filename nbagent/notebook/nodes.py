"""The nodes of a notebook, nbformat 4.5, made and checked without importing nbformat.

Importing nbformat imports jsonschema, which makes a grammar of all addresses first: most of a second, which a person
would wait for at the end of each session. The schema is nbformat's own, and so is the library that checks by it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

Node = dict[str, Any]


def new_markdown_cell(source: str, *, id: str, metadata: Node) -> Node:
    """A cell of text."""
    return {"cell_type": "markdown", "id": id, "metadata": metadata, "source": source}


def new_code_cell(
    source: str, *, id: str, metadata: Node, outputs: list[Node] | None = None, execution_count: int | None = None
) -> Node:
    """A cell of code, which has not run unless a count is given."""
    return {
        "cell_type": "code",
        "execution_count": execution_count,
        "id": id,
        "metadata": metadata,
        "outputs": outputs or [],
        "source": source,
    }


def new_notebook(cells: list[Node], metadata: Node) -> Node:
    """A notebook."""
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def validate(notebook: Node) -> None:
    """Hold a notebook against nbformat's schema.

    Raises:
        fastjsonschema.JsonSchemaException: It is not valid.
    """
    _schema()(notebook)


@functools.cache
def _schema() -> Callable[[Node], object]:
    import fastjsonschema

    package = find_spec("nbformat")
    schema = Path(str(package and package.origin)).with_name("v4") / "nbformat.v4.5.schema.json"
    made: Callable[[Node], object] = fastjsonschema.compile(msgspec.json.decode(schema.read_bytes()))
    return made
