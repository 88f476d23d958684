"""Import name → distribution: what to install when a module is missing.

The name after `import` is not always the name on the index: `cv2` comes from `opencv-python-headless`, and programs
that guess install whatever somebody registered as `cv2`. So names that differ are in a table, `import_names.json`. A
name that isn't in it stands for itself, and policy (minimum age, allow, deny) decides.

Where several distributions provide a module, the table names the one that works in a sandbox: no display, no compiler,
no system library. Keys are the longest dotted prefix that decides. A namespace package (`google`, `azure`) has a key
for each known part; other parts are refused, since anybody may have registered the bare name.
"""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from nbagent.core.errors import InstallRefused

MAX_MODULE = 100
"""Characters of the longest module name."""


class Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is in `import_names.json`, sorted.

    Attributes:
        distributions: Import name → distribution, where the two differ.
        namespaces: Namespace packages, which many distributions share, so that the bare name chooses none.
        removed: Modules that left the standard library between Python 3.8 and 3.13.
        python_2: The standard library of Python 2, which generated code still imports.
        windows: pywin32 and its kin.
        macos: PyObjC.
        own_files: Names that people give to files beside their script; on the index they belong to strangers.
        elsewhere: Modules that no wheel on the index provides, and why.
        popular: Popular distributions, by normalised name: to ask the index for one tells it nothing.
    """

    distributions: dict[str, str]
    namespaces: frozenset[str]
    removed: frozenset[str]
    python_2: frozenset[str]
    windows: frozenset[str]
    macos: frozenset[str]
    own_files: frozenset[str]
    elsewhere: dict[str, str]
    popular: frozenset[str]


NAMES = msgspec.json.decode(Path(__file__).with_name("import_names.json").read_bytes(), type=Names)
DISTRIBUTIONS = NAMES.distributions

KNOWN = NAMES.popular | {canonicalize_name(name) for name in DISTRIBUTIONS.values()}
"""Normalised names that code may ask the index for without a bound, see `allowance.py`."""


_MISSING = re.compile(r"No module named '?([\w.]+)'?")
_IMPORT_ERRORS = ("ModuleNotFoundError", "ImportError", "FeatureNotFound")
"""Errors that may name something to install; the last one is Beautiful Soup's, for a parser."""
_OPTIONAL = (
    re.compile(r"Missing optional dependency '([\w.]+)'"),
    re.compile(r"`Import ([\w.-]+)` failed"),
    re.compile(r"required package '([\w.]+)' not found"),
    re.compile(r"tree builder with the features you requested: (lxml|html5lib)\b"),
    re.compile(r"\b(?:pip|conda|uv pip) install (?:-U |--upgrade )?['\"`]?([A-Za-z]\w*)\b(?![-\[]|\.\w)"),
)
"""How libraries say which optional one they lack: pandas, Polars, Beautiful Soup, and most others."""
_PANDAS_NAMES = {
    "beautifulsoup4": "bs4",
    "Bottleneck": "bottleneck",
    "Jinja2": "jinja2",
    "odfpy": "odf",
    "pytables": "tables",
    "python-calamine": "python_calamine",
    "SQLAlchemy": "sqlalchemy",
}
"""The modules of which pandas says another name."""


def missing_module(kind: str, words: str, code: str) -> str | None:
    """The module that an error says is missing, by the dotted name that the code imports it by; None if it says none.

    Python names only the first part that is missing: `google` for `google.cloud.storage`. A library that lacks an
    optional one raises an error of its own, which names it.
    """
    if kind not in _IMPORT_ERRORS:
        return None
    patterns = (_MISSING, *_OPTIONAL) if kind == "ModuleNotFoundError" else _OPTIONAL
    found = next((each for each in (pattern.search(words[:2000]) for pattern in patterns) if each is not None), None)
    if found is None:
        return None
    module = _PANDAS_NAMES.get(found[1], found[1])
    dotted = re.search(rf"(?m)^[^\S\n]*(?:from|import)\s+({re.escape(module)}\.[\w.]+)", code)
    return dotted[1].rstrip(".") if dotted else module


def distribution_for(module: str) -> str:
    """The distribution that provides a module.

    It takes the whole dotted name that the code imports. The name in a `ModuleNotFoundError` may be the first part
    only, such as `google` for `import google.cloud.storage`.

    Returns:
        The distribution's name from the table, or else the module's top-level name, normalised.

    Raises:
        InstallRefused: The name is no module's, belongs to the standard library, is on no index, looks like a file of
            the person's own, or is an unknown part of a namespace. The message says which.
    """
    parts = _parts(module)
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    for prefix in prefixes:
        if prefix in NAMES.elsewhere:
            raise InstallRefused(f"The module {prefix} {NAMES.elsewhere[prefix]}.")
        if prefix in DISTRIBUTIONS:
            return DISTRIBUTIONS[prefix]
        if prefix in NAMES.namespaces:
            raise InstallRefused(
                f"{module} is part of {prefix}, which many distributions share.",
                mend="Ask for the distribution by its name on the index.",
            )
    _refuse_unpublished(parts[0])
    name = canonicalize_name(parts[0]).strip("-")
    if not name:
        raise InstallRefused(f"No distribution can be called {module[:80]!r}.")
    return name


def _parts(module: str) -> list[str]:
    """The parts of a dotted name, checked to be ASCII identifiers."""
    parts = module[: MAX_MODULE + 1].split(".")
    named = all(part.isascii() and part.isidentifier() and not keyword.iskeyword(part) for part in parts)
    if len(module) > MAX_MODULE or not named:
        raise InstallRefused(f"{module[:40]!r} is not the name of a module.")
    return parts


def _refuse_unpublished(top: str) -> None:
    """Refuse a top-level name for which no distribution must be guessed."""
    if top in NAMES.python_2:
        raise InstallRefused(
            f"The module {top} belongs to Python 2's standard library; Python 3 has it by another name."
        )
    if top in NAMES.removed:
        raise InstallRefused(f"The module {top} was removed from Python's standard library; no package replaces it.")
    if top in {"_tkinter", "tkinter", "turtle", "idlelib"}:
        raise InstallRefused(
            f"The module {top} is part of Python's standard library and needs a display, which a sandbox hasn't."
        )
    if top in sys.stdlib_module_names:
        raise InstallRefused(
            f"The module {top} is part of Python's standard library; if it's missing, the sandbox's Python hasn't it."
        )
    if top in NAMES.windows or top in NAMES.macos:
        raise InstallRefused(f"The module {top} works on {'Windows' if top in NAMES.windows else 'macOS'} only.")
    if top in NAMES.own_files:
        raise InstallRefused(
            f"The module {top} looks like a file of your own, and a stranger's package has that name.",
            mend="Put its code into a cell, or ask for the distribution by its name on the index.",
        )
    if top.startswith("_"):
        raise InstallRefused(f"The module {top} is private; no distribution is named after it.")
