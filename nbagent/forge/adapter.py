"""Adapters: tools that call a function of a package. Pure: the package is imported in the sandbox only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nbagent.core.errors import ForgeError, InstallRefused
from nbagent.forge.tool import FUNCTION, Draft
from nbagent.packages.requirements import parse

MAX_FUNCTIONS = 10
_CODE = '''\
"""{path} of the package {package}, as a tool."""

import functools

from {module} import {attribute} as wrapped


@functools.wraps(wrapped, updated=())
def {name}(*args, **kwargs):
    return wrapped(*args, **kwargs)
'''
_TESTS = """\
from {name} import {name}


def test_it_is_there():
    assert callable({name}.__wrapped__)
"""


def drafts_of(requirement: str, functions: Sequence[str], *, description: str = "", tests: str = "") -> list[Draft]:
    """Drafts of tools that wrap functions of a package. By default, their tests only check that the functions exist."""
    try:
        package = parse(requirement).name
    except InstallRefused as error:
        raise ForgeError(error.message, mend=error.mend) from None
    if not 1 <= len(functions) <= MAX_FUNCTIONS or (tests and len(functions) > 1):
        raise ForgeError(
            f"An adapter wraps 1 to {MAX_FUNCTIONS} functions, and one alone if it brings tests.",
            mend="Name them with their modules, such as humanize.naturalsize.",
        )
    return [
        _draft(requirement, path, package=package, description=description, tests=tests)
        for path in dict.fromkeys(functions)
    ]


def _draft(requirement: str, path: str, *, package: str, description: str, tests: str) -> Draft:
    if not FUNCTION.fullmatch(path):
        raise ForgeError(f"{path[:80]!r} names no function.", mend="Write MODULE.FUNCTION: humanize.naturalsize.")
    module, _, attribute = path.rpartition(".")
    name = tool_name(path)
    words = {"path": path, "package": package, "module": module, "attribute": attribute, "name": name}
    return Draft(
        name=name,
        description=description or f"{path} of the package {package}.",
        code=_CODE.format(**words),
        tests=tests or _TESTS.format(**words),
        dependencies=(requirement,),
        adapts=path,
    )


def tool_name(path: str) -> str:
    """The name of the tool that wraps a function: `bs4.BeautifulSoup` becomes `bs4_beautifulsoup`."""
    module, _, attribute = path.rpartition(".")
    return re.sub(r"_+", "_", f"{module.partition('.')[0]}_{attribute}".lower()).strip("_")
