"""A notebook as a script in the percent format, and as Markdown. Pure."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from nbagent.core import syntax
from nbagent.core.text import fenced, joined
from nbagent.kernel.outputs.streams import clean_text

_MAGIC = re.compile(r"(?m)^([^\S\n]*)([%!?])")
_TIMED = re.compile(r"(?m)^([ \t]*)%time[ \t]++(?=\S)")
_MEASURED = re.compile(r"%%(?:time|timeit|capture)\b.*\n")
"""Cell magics behind which there is Python."""
DISPLAY = "# %%\nfrom IPython.display import display"
"""What Jupyter has without an import."""
AWAITS = '''# %%
def in_loop(code, loop=__import__("asyncio").new_event_loop()):
    """Run code that awaits outside of functions, in one event loop for all cells, as in a notebook."""
    import ast, inspect

    async def run():
        made = eval(compile(code, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), globals())
        if inspect.iscoroutine(made):
            await made

    loop.run_until_complete(run())'''
_IN_LOOP = re.compile(r"\b(?:asyncio|create_task|ensure_future|get_running_loop|TaskGroup)\b")
"""What needs an event loop that runs, where a notebook has one."""
_METADATA = re.compile(r"(?<![^\r\n])# (?=///)")
"""By which uv knows a block of metadata (PEP 723). Only nbagent's own cell has one: that of a model's answer, which a
file of the data may have dictated, would install what it names."""


def percent(notebook: Any) -> str:
    """A script that `uv run`, Spyder, VS Code and Jupytext take; what is no plain Python is a comment in it."""
    cells = sorted(notebook["cells"], key=_is_not_block)
    awaits = any(_awaits(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    parts = [
        _METADATA.sub("#  ", _part(cell, in_loop=awaits)) if _is_not_block(cell) else cell["source"] for cell in cells
    ]
    if awaits:
        parts.insert(0 if _is_not_block(cells[0]) else 1, AWAITS)
    if any(re.search(r"\bdisplay\(", cell["source"]) for cell in cells if cell["cell_type"] == "code"):
        parts.insert(0 if _is_not_block(cells[0]) else 1, DISPLAY)
    return clean_text("\n\n".join(parts) + "\n")


def _awaits(source: str) -> bool:
    """Whether a cell is Python but for what it awaits outside of functions."""
    if syntax.compiles(_plain(source)) or (source.startswith("%%") and not _MEASURED.match(source)):
        return False
    try:
        syntax.parse(_plain(source), awaits=True)
    except syntax.UNREADABLE:
        return False
    return True


def _plain(source: str) -> str:
    """A cell whose magics are comments, but for the statements that they measure."""
    return _MAGIC.sub(r"\1# \2", _TIMED.sub(r"\1", source))


def _part(cell: Any, *, in_loop: bool) -> str:
    source: str = cell["source"]
    if cell["cell_type"] != "code":
        return "\n".join(["# %% [markdown]", *(f"# {line}".rstrip() for line in source.splitlines())])
    if "raises-exception" in cell["metadata"].get("tags", ()):
        return '# %% tags=["raises-exception"]\n' + _guarded(_as_python(source, in_loop=in_loop))
    return "# %%\n" + _as_python(source, in_loop=in_loop)


def _as_python(source: str, *, in_loop: bool) -> str:
    """A cell as Python without IPython: magics, or the whole cell if need be, become comments."""
    magic, code = "", source
    if in_loop and (_awaits(source) or (_IN_LOOP.search(source) and syntax.compiles(source))):
        plain = _plain(source)
        return f"in_loop({plain!r})" if "'''" in plain else f"in_loop(r'''\n{plain}\n''')"
    if found := _MEASURED.match(source):
        magic, code = f"# {found[0]}", source[found.end() :]
    if not code.startswith("%%"):
        for each in (code, _plain(code)):
            if syntax.compiles(each):
                return magic + each
    return "\n".join(f"# {line}".rstrip() for line in source.splitlines())


def _guarded(code: str) -> str:
    """Code after whose error a script goes on, as a notebook does behind a cell with this tag."""
    inside = textwrap.indent(code, "    ")
    body = f"try:\n{inside}\nexcept Exception:\n    __import__('traceback').print_exc()"
    try:
        tree = syntax.parse(body).body[0]
        # A text over several lines would be another one.
        same = isinstance(tree, ast.Try) and list(map(ast.dump, tree.body)) == list(
            map(ast.dump, syntax.parse(code).body)
        )
    except syntax.UNREADABLE:
        return code
    return body if same else body.replace(inside, f"    exec({code!r})", 1)


def _is_not_block(cell: Any) -> bool:
    return bool(cell["metadata"].get("nbagent", {}).get("role") != "requirements")


def markdown(notebook: Any) -> str:
    """Text, code and outputs; figures are in it."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            parts.append(cell["source"])
        elif not cell["metadata"].get("jupyter", {}).get("source_hidden"):
            parts += [fenced(cell["source"], "python"), *_outputs(cell)]
    return clean_text("\n\n".join(parts) + "\n")


def _outputs(cell: Any) -> Iterator[str]:
    for output in cell["outputs"]:
        data = output.get("data", {})
        if output["output_type"] == "stream":
            yield fenced(joined(output["text"]).rstrip("\n"))
        elif output["output_type"] == "error":
            yield fenced(f"{output['ename']}: {output['evalue']}")
        elif "image/png" in data:
            encoded = "".join(joined(data["image/png"]).split())
            alt = output.get("metadata", {}).get("image/png", {}).get("alt") or f"cell {cell['execution_count']}"
            yield f"![{alt}](data:image/png;base64,{encoded})"
        elif "text/markdown" in data:
            yield joined(data["text/markdown"])
        elif "text/plain" in data:
            yield fenced(joined(data["text/plain"]))
