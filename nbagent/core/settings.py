"""A person's settings: environment variables (`NBAGENT_…`), and a file in their configuration folder.

    ~/.config/nbagent/config.toml      engine = "docker"
                                       memory_mb = 4096
                                       install_deny = ["leftpad"]

`options.py` declares the settings. The environment overrides the file, and an option on the command line or in Python
overrides both. Nothing is read from the current folder: somebody else's project must not weaken the sandbox that it
will run in.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from pathlib import Path
from typing import Any, Unpack

import msgspec
import platformdirs

from nbagent.core.budget import Budget
from nbagent.core.errors import UsageError
from nbagent.core.options import Keywords, Option, Options, fields


def config_file() -> Path:
    """The path of the settings file, which may not be there."""
    return platformdirs.user_config_path("nbagent") / "config.toml"


def load(**given: Unpack[Keywords]) -> Options:
    """This person's settings, with given options in their place.

    Raises:
        UsageError: A setting or an option is wrong; the message names it.
    """
    found = _of_file(config_file())
    for name, value in _of_environment().items():
        # The entries of a table are overridden one by one.
        found[name] = {**found.get(name, {}), **value} if isinstance(value, dict) else value
    return Options(**found).but(**given)


def _of_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeError) as error:
        raise _unreadable(error) from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(error) from error
    # A misspelt setting is an error: it may have been meant to make the sandbox stricter.
    return {name: _convert(name, value, strict=True) for name, value in table.items()}


def _of_environment() -> dict[str, Any]:
    """The settings in the environment. Unknown variables with the prefix are ignored: some are read elsewhere."""
    variables = (
        (name, os.environ.get(f"NBAGENT_{name.upper()}")) for name, (_, _, where) in fields().items() if where.setting
    )
    return {name: _convert(name, text, strict=False) for name, text in variables if text is not None}


def _convert(name: str, value: Any, *, strict: bool) -> Any:
    """Check and convert the value of one setting; a variable of the environment may be JSON."""
    hint, _, where = fields().get(name, (None, "", Option(setting=False)))
    if not where.setting:
        near = difflib.get_close_matches(name, [each for each, (_, _, where) in fields().items() if where.setting], 1)
        raise UsageError(
            f"There is no setting {name!r}{f', but {near[0]}' if near else ''}.", mend=f"See {config_file()}."
        )
    if name == "budget":
        return _budget(value)
    try:
        try:
            found = msgspec.convert(value, hint, strict=strict)
        except msgspec.ValidationError:
            if strict:
                raise
            found = msgspec.convert(msgspec.json.decode(value), hint, strict=False)
        if isinstance(found, float) and not math.isfinite(found):
            raise msgspec.ValidationError("It is not a finite number")
    except msgspec.DecodeError as error:
        raise UsageError(
            f"The setting {name} is wrong: {error}.", mend=f"See NBAGENT_{name.upper()} and {config_file()}."
        ) from error
    return found


def _budget(value: Any) -> Budget:
    try:
        return Budget.parse(str(value))
    except UsageError as error:
        raise UsageError(f"The setting budget is wrong. {error.message}", mend=error.mend) from None


def _unreadable(error: Exception) -> UsageError:
    return UsageError(
        f"The settings can't be read: {error}.", mend=f"They are in {config_file()} and in variables NBAGENT_…."
    )
