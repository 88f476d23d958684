"""A notebook as a script in the percent format, and as Markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nbagent.kernel.outputs.streams import clean_text

_MAGIC = re.compile(r"(?m)^([^\S\n]*)([%!])")


def percent(notebook: Any) -> str:
    """A script that `uv run`, Spyder, VS Code and Jupytext take; magics are comments in it."""
    parts = []
    for cell in sorted(notebook["cells"], key=_is_not_block):
        source = cell["source"]
        if not _is_not_block(cell):
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append("# %%\n" + _MAGIC.sub(r"\1# \2", source))
        else:
            parts.append("\n".join(["# %% [markdown]", *(f"# {line}".rstrip() for line in source.splitlines())]))
    return clean_text("\n\n".join(parts) + "\n")


def _is_not_block(cell: Any) -> bool:
    return bool(cell["metadata"].get("nbagent", {}).get("role") != "requirements")


def markdown(notebook: Any) -> str:
    """Text, code and outputs; figures are in it."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            parts.append(cell["source"])
        elif _is_not_block(cell):
            parts += [_fenced(cell["source"], "python"), *_outputs(cell)]
    return clean_text("\n\n".join(parts) + "\n")


def _outputs(cell: Any) -> Iterator[str]:
    for output in cell["outputs"]:
        data = output.get("data", {})
        if output["output_type"] == "stream":
            yield _fenced(_text(output["text"]).rstrip("\n"))
        elif output["output_type"] == "error":
            yield _fenced(f"{output['ename']}: {output['evalue']}")
        elif "image/png" in data:
            encoded = "".join(_text(data["image/png"]).split())
            yield f"![cell {cell['execution_count']}](data:image/png;base64,{encoded})"
        elif "text/markdown" in data:
            yield _text(data["text/markdown"])
        elif "text/plain" in data:
            yield _fenced(_text(data["text/plain"]))


def _text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)


def _fenced(text: str, language: str = "") -> str:
    fence = "`" * max(3, 1 + max((len(each) for each in re.findall(r"`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"
