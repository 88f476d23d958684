"""A tool as a value: as it is asked for (`Draft`), and as it is kept once it has passed its tests (`Tool`).

A tool is one function in a module of the same name. Nothing here runs, imports or compiles any of its code.
"""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
import sys
from typing import Any

import msgspec

from nbagent.errors import ForgeError, InstallRefused
from nbagent.events import Package
from nbagent.forge import source
from nbagent.packages.requirements import parse
from nbagent.packages.wheels import KERNEL_MODULES

MAX_SOURCE = 100_000
"""Bytes of the code, and of the tests."""
MAX_DESCRIPTION = 1000
"""Characters."""
MAX_DEPENDENCIES = 20
RESERVED = frozenset(
    "python install sandbox_exec sandbox_write_file sandbox_edit_file create_tool wrap_package".split()
)
"""Names of tools that the model has anyway."""

_NAME = re.compile(r"[a-z](?:_?[a-z0-9]){1,47}")
FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){1,8}", re.ASCII)
"""A function with its module."""
# What no Python source can hold: NUL, and half of a surrogate pair.
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is asked for.

    Attributes:
        name: Of the tool, of its function, and of its module.
        description: What it does, for whoever chooses among tools.
        code: The module: a function of that name with type hints, and whatever it needs.
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


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that has passed its own tests in a fresh sandbox.

    Attributes:
        name: As in the draft.
        version: From 1; each time it is made anew, one more.
        description: As in the draft.
        code: As in the draft.
        tests: As in the draft.
        dependencies: As in the draft, and what it imported beyond that.
        adapts: As in the draft.
        packages: What was installed for it when it was tested, its dependencies' own included.
        schema: Its parameters as JSON Schema, from its type hints.
        doc: The first paragraph of its docstring.
        is_async: Whether it is awaited.
        python: The Python that it was tested with.
        tested: The tests that passed.
        made: Seconds since the epoch.
    """

    name: str
    version: int
    description: str
    code: str
    tests: str
    dependencies: tuple[str, ...] = ()
    adapts: str = ""
    packages: tuple[Package, ...] = ()
    schema: dict[str, Any]
    doc: str = ""
    is_async: bool = False
    python: str
    tested: tuple[str, ...]
    made: float

    @property
    def pins(self) -> list[str]:
        """Its packages in exactly the versions that it was tested with."""
        return [f"{each.name}=={each.version}" for each in self.packages]


def encode(tool: Tool) -> bytes:
    """A tool as JSON; the same tool always gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(tool), indent=1)


def decode(data: bytes) -> Tool:
    """A tool from its JSON.

    Raises:
        msgspec.DecodeError: It is none.
    """
    return msgspec.json.decode(data, type=Tool)


def digest(data: bytes) -> str:
    """The hash by which the library knows a tool again."""
    return hashlib.sha256(data).hexdigest()


def check(draft: Draft) -> None:
    """Complain of a draft that can't become a tool, before anything is started for it.

    Raises:
        ForgeError: The name, the sources, the description or a dependency is wrong.
    """
    check_name(draft.name)
    words = draft.description
    if not words.strip() or len(words) > MAX_DESCRIPTION or _UNUSABLE.search(words):
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
    """Complain of a name that no tool can have.

    Raises:
        ForgeError: It is no plain name, or has a meaning already.
    """
    check_form(name)
    taken = keyword.iskeyword(name) or keyword.issoftkeyword(name) or hasattr(builtins, name)
    if taken or name in RESERVED or name in sys.stdlib_module_names or name in KERNEL_MODULES:
        raise ForgeError(f"The name {name} is taken by something else.", mend=f"Use another, such as {name}_tool.")


def check_form(name: str) -> None:
    """Complain of what is no plain name.

    Raises:
        ForgeError: It isn't one.
    """
    if not _NAME.fullmatch(name):
        raise ForgeError(
            f"A tool can't be called {name[:60]!r}.",
            mend="Use 2 to 48 small letters, digits and single underscores, such as word_count.",
        )


def _check_source(what: str, text: str) -> None:
    if unusable := _UNUSABLE.search(text):
        line = text.count("\n", 0, unusable.start()) + 1
        raise ForgeError(f"Line {line} of the {what} has a character that no Python source can hold.")
    size = len(text.encode())
    if size > MAX_SOURCE:
        raise ForgeError(f"The {what} of a tool may have {MAX_SOURCE:,} bytes, not {size:,}.")
    if problem := source.problem(text):
        raise ForgeError(f"The {what} can't be read: {problem}.")
