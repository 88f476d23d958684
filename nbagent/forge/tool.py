"""A tool as a value: `Draft` is what is asked for, `Tool` is what is kept once its tests passed.

A tool is a function in a module of the same name. Nothing here runs, imports or compiles its code.
"""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
import sys
from typing import Any

import msgspec

from nbagent.core.errors import ForgeError, InstallRefused
from nbagent.core.events import Package
from nbagent.core.text import UNUSABLE
from nbagent.forge import source
from nbagent.packages.requirements import parse
from nbagent.packages.unpacked import KERNEL_MODULES

MAX_SOURCE = 100_000
"""Bytes of the code, and of the tests."""
MAX_DESCRIPTION = 1000
"""Characters of a description."""
MAX_DEPENDENCIES = 20
RESERVED = frozenset(
    "python install sandbox_exec sandbox_write_file sandbox_edit_file create_tool wrap_package".split()
)
"""Names of the model's own tools."""

_NAME = re.compile(r"[a-z](?:_?[a-z0-9]){1,47}")
FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){1,8}", re.ASCII)
"""The dotted name of a function with its module."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is asked for.

    Attributes:
        name: The name of the tool, its function and its module.
        description: What it does, for a model or a person that chooses among tools.
        code: The module, with a function of that name that has type hints.
        tests: A pytest module that imports the tool by its name.
        dependencies: Distributions that it needs, as `name` or `name>=version`.
        adapts: For an adapter, the function of a package that it wraps, such as `humanize.naturalsize`.
    """

    name: str
    description: str
    code: str
    tests: str
    dependencies: tuple[str, ...] = ()
    adapts: str = ""


class Tool(Draft, frozen=True, kw_only=True):
    """A tool that has passed its own tests in a fresh sandbox: its draft, and what is known of it since.

    Attributes:
        version: From 1, one more each time that it is made anew.
        dependencies: Those of the draft, and distributions that were installed since it imports them.
        packages: All packages that were installed for its tests, indirect dependencies included.
        schema: Its parameters as JSON Schema, from its type hints.
        doc: The first paragraph of its docstring.
        is_async: Whether it is awaited.
        python: The Python that it was tested with.
        tested: The tests that passed.
        made: Seconds since the epoch.
    """

    version: int
    packages: tuple[Package, ...] = ()
    schema: dict[str, Any]
    doc: str = ""
    is_async: bool = False
    python: str
    tested: tuple[str, ...]
    made: float

    @property
    def pins(self) -> list[str]:
        """Its packages with the versions that it was tested with."""
        return [f"{each.name}=={each.version}" for each in self.packages]


def encode(tool: Tool) -> bytes:
    """A tool as JSON; the same tool always gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(tool), indent=1)


def decode(data: bytes) -> Tool:
    """Read a tool from JSON.

    Raises:
        msgspec.DecodeError: It is malformed.
    """
    return msgspec.json.decode(data, type=Tool)


def digest(data: bytes) -> str:
    """The hash that the library keeps of a tool's file."""
    return hashlib.sha256(data).hexdigest()


def check(draft: Draft) -> None:
    """Check a draft, before a sandbox is started for it."""
    check_name(draft.name)
    words = draft.description
    if not words.strip() or len(words) > MAX_DESCRIPTION or UNUSABLE.search(words):
        raise ForgeError(f"A tool's description is a text of 1 to {MAX_DESCRIPTION:,} characters.")
    if draft.adapts and not FUNCTION.fullmatch(draft.adapts):
        mend = "Write MODULE.FUNCTION: humanize.naturalsize."
        raise ForgeError(f"{draft.adapts[:80]!r} names no function.", mend=mend)
    _check_source("code", draft.code)
    _check_source("tests", draft.tests)
    if not source.defines(draft.code, draft.name):
        raise ForgeError(f"The code has no function {draft.name}.", mend="Name the tool's function as the tool.")
    if not source.imports(draft.tests, draft.name):
        raise ForgeError(
            "The tests don't import the tool.", mend=f"Begin them with: from {draft.name} import {draft.name}"
        )
    if not source.tests_in(draft.tests):
        raise ForgeError("There are no tests.", mend="Write functions test_… that call the tool and assert.")
    if len(draft.dependencies) > MAX_DEPENDENCIES:
        raise ForgeError(f"A tool has at most {MAX_DEPENDENCIES} dependencies, not {len(draft.dependencies)}.")
    for each in draft.dependencies:
        try:
            parse(each)
        except InstallRefused as error:
            raise ForgeError(error.message, mend=error.mend) from None


def check_name(name: str) -> None:
    """Check the name of a tool."""
    check_form(name)
    taken = keyword.iskeyword(name) or keyword.issoftkeyword(name) or hasattr(builtins, name)
    if taken or name in RESERVED or name in sys.stdlib_module_names or name in KERNEL_MODULES:
        raise ForgeError(f"The name {name} is taken by something else.", mend=f"Use another, such as {name}_tool.")


def check_form(name: str) -> None:
    """Check the form of a name."""
    if not _NAME.fullmatch(name):
        raise ForgeError(
            f"A tool can't be called {name[:60]!r}.",
            mend="Use 2 to 48 small letters, digits and single underscores, such as word_count.",
        )


def _check_source(what: str, text: str) -> None:
    if unusable := UNUSABLE.search(text):
        line = text.count("\n", 0, unusable.start()) + 1
        raise ForgeError(f"Line {line} of the {what} has a character that no Python source can hold.")
    size = len(text.encode())
    if size > MAX_SOURCE:
        raise ForgeError(f"The {what} of a tool may have {MAX_SOURCE:,} bytes, not {size:,}.")
    if problem := source.problem(text):
        raise ForgeError(f"The {what} can't be read: {problem}.")
