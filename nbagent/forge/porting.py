"""Tools as files for other people: `NAME.py` has the tool, `test_NAME.py` its tests, `tool.json` what is known of it.

They are read as drafts: a tool that is added is made and tested anew, and nothing that a file says of it is believed.
"""

from __future__ import annotations

import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from nbagent.core.errors import DataError, ForgeError, StoreError
from nbagent.core.fileio import cannot_write, save
from nbagent.forge import adapter, source
from nbagent.forge.tool import MAX_SOURCE, Draft, Tool, check_name
from nbagent.packages.requirements import script_block
from nbagent.sandbox.data.mounts import named
from nbagent.sandbox.untrusted import parse

ABOUT = "tool.json"
_UNREADABLE = (
    DataError, OSError, KeyError, TypeError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error,
    lzma.LZMAError,
)  # fmt: skip
"""What reading such files may raise: RuntimeError for an archive with a password, the last ones for a damaged one."""


def export(tool: Tool, to: Path) -> Path:
    """Write a tool into a new folder, or a zip archive if the name ends in `.zip`; returns its path."""
    about = msgspec.to_builtins(tool)
    files = {f"{tool.name}.py": about.pop("code"), f"test_{tool.name}.py": about.pop("tests")}
    files[ABOUT] = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    try:
        if to.exists():
            raise StoreError(f"{to} is there already.", mend="Name another place.")
        if to.suffix == ".zip":
            save(to, _pack({f"{tool.name}/{name}": text for name, text in files.items()}))
        else:
            to.mkdir(parents=True)
            for name, text in files.items():
                save(to / name, text.encode())
    except OSError as error:
        raise cannot_write(to, error, mend="Choose another place.") from error
    return to.absolute()


def _pack(files: Mapping[str, str]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packing:
        for name, text in files.items():
            packing.writestr(name, text)
    return archive.getvalue()


def draft_of(path: Path) -> Draft:
    """Read a draft from an exported folder or zip archive, or from NAME.py with test_NAME.py beside it."""
    try:
        if path.suffix == ".py":
            return _of_module(path)
        if path.is_dir():
            return _of_files(lambda name: _read(path / name))
        with zipfile.ZipFile(path) as archive:
            names = {Path(each).name: each for each in archive.namelist()[:100] if each.count("/") <= 1}
            return _of_files(lambda name: _unpack(archive, names[name]))
    except _UNREADABLE as error:
        reason = str(error) or type(error).__name__
        raise ForgeError(
            f"{path} is no tool: {reason[:200]}.",
            mend="Name an exported folder or zip archive, or NAME.py with test_NAME.py beside it.",
        ) from None


def _of_files(read: Callable[[str], str]) -> Draft:
    about = parse(read(ABOUT), dict[str, Any], limit=MAX_SOURCE)
    name = about["name"]
    check_name(name)  # before it becomes part of a path
    code, dependencies = read(f"{name}.py"), _strings(about.get("dependencies", []))
    return Draft(
        name=name,
        description=str(about["description"]),
        code=code,
        tests=read(f"test_{name}.py"),
        dependencies=dependencies,
        adapts=_adapts(str(about.get("adapts", "")), code, dependencies),
    )


def _adapts(path: str, code: str, dependencies: tuple[str, ...]) -> str:
    """The function that an adapter wraps, if the code really is that adapter's: less is required of its tests."""
    if not path or not dependencies:
        return ""
    return path if adapter.drafts_of(dependencies[0], [path])[0].code == code else ""


def _of_module(path: Path) -> Draft:
    code, name = _read(path), path.stem
    if problem := source.problem(code):
        raise ValueError(problem)
    return Draft(
        name=name,
        description=source.summary(code, name) or f"The function {name}.",
        code=code,
        tests=_read(path.with_name(f"test_{name}.py")),
        dependencies=_strings(script_block(code).get("dependencies", [])),
    )


def _strings(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError("its dependencies are no list of names")
    return tuple(found)


def _read(path: Path) -> str:
    if not path.is_file():  # reading a pipe would never end
        raise OSError(f"there is no file {path.name}")
    # Of somebody else's folder, a link may lead to any file of the person's.
    with named(path).open("rb") as file:
        return _text(file.read(MAX_SOURCE + 1), path.name)


def _unpack(archive: zipfile.ZipFile, name: str) -> str:
    with archive.open(name) as file:
        return _text(file.read(MAX_SOURCE + 1), name)


def _text(data: bytes, name: str) -> str:
    if len(data) > MAX_SOURCE:
        raise ValueError(f"{name} has more than {MAX_SOURCE:,} bytes")
    return data.decode()
