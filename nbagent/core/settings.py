"""The options in effect: what a person gives, else environment variables (`NBAGENT_…`), else their settings file.

    ~/.config/nbagent/config.toml      engine = "docker"
                                       memory_mb = 4096
                                       install_deny = ["leftpad"]

`options.py` declares the options. Nothing is read from the current folder: somebody else's project must not weaken the
sandbox that it will run in.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Unpack, get_args

import msgspec
import platformdirs

from nbagent.core import folders
from nbagent.core.budget import Budget
from nbagent.core.errors import UsageError
from nbagent.core.options import OTHER_NAMES, Keywords, Options, declared, fields

PREFIX = "NBAGENT_"
"""The beginning of the variables of the environment that are settings."""
_NO_SETTINGS = ("NBAGENT_TEST_", "NBAGENT_SELF_CHECK_")
"""Those of the tests, and of the self-check, which looks for its own inside."""
_SWITCHES = {"yes": True, "on": True, "no": False, "off": False}


def config_file() -> Path:
    """The path of the settings file, which may not be there."""
    return platformdirs.user_config_path("nbagent") / "config.toml"


def load(**given: Unpack[Keywords]) -> Options:
    """This person's settings, overridden by given options.

    Raises:
        UsageError: A setting or an option is wrong; the message names it.
    """
    found = _from_file(config_file())
    for name, value in _from_environment().items():
        # The entries of a table are overridden one by one.
        found[name] = {**found.get(name, {}), **value} if isinstance(value, dict) else value
    return override(Options(**found), **given)


def state_root(folder: str | Path | None = None) -> Path:
    """The folder of all of this person's state: the given one, or where the settings say."""
    return folders.state_root(folder or load().state_dir)


def override(options: Options, **given: Unpack[Keywords]) -> Options:
    """Options with given ones in their place.

    None, and an empty text where the default is None, mean that an option isn't given. Rules in `allow`, limits in
    `accept` and entries of `security` are added to those that are there.

    Raises:
        UsageError: There is no such option, its value is of the wrong kind, or two options contradict each other.
    """
    default = Options()
    new = {
        name: _as_json(value)
        for name, value in given.items()
        if value is not None and not (value == "" and getattr(default, name, "") is None)
    }
    for name in ("data", "allow", "accept"):
        if isinstance(new.get(name), str):
            new[name] = [new[name]]
    for name in new:
        declared(name)
        if name not in Keywords.__annotations__:
            mend = f"Write it into {config_file()}, or set {PREFIX}{name.upper()}."
            raise UsageError(f"The option {name} is a setting, and not an option of a session.", mend=mend)
    for name in fields():
        if name == "budget" and name in new:
            new[name] = Budget.read(new[name], base=options.budget)
        elif name in new:
            new[name] = _value_of(name, new[name])
        elif (value := getattr(options, name)) != getattr(default, name):
            _value_of(name, value)  # whoever makes `Options` may put anything into them
    if new.get("mcp") is True and options.mcp:
        del new["mcp"]  # True keeps the file that the settings name
    if new.get("forge") and new.get("replies", options.replies) == "structured":
        raise UsageError("A model with structured replies calls no tools, so it can't make any.", mend="Leave one out.")
    for name in ("allow", "accept"):
        new[name] = [*getattr(options, name), *new.get(name, ())]
    security = new.get("security", {})
    if new.get("ask_hosts") and security.get("network_enabled") is False:
        raise UsageError("Nobody can be asked for hosts where there is no network.", mend="Leave one of them out.")
    # Some options have two names: a given one overrides the settings under either name.
    overruled = {OTHER_NAMES[name]: None for name in security if name in OTHER_NAMES}
    return msgspec.structs.replace(options, **{**overruled, **new, "security": {**options.security, **security}})


def _value_of(name: str, value: Any) -> Any:
    """The value of an option, converted to the option's type."""
    hint, option = fields()[name]
    if name == "limits" and isinstance(value, dict):  # of which msgspec would pass over a misspelt name
        raise UsageError("The option limits is no table.", mend="Write nbagent.Limits(memory_mb=…), for example.")
    try:
        return _require_finite(msgspec.convert(value, hint))
    except msgspec.ValidationError as error:
        words = get_args(get_args(hint)[0])  # of a `Literal`
        if isinstance(value, str) and all(isinstance(each, str) for each in words):
            mend = f"Use one of: {', '.join(words)}."
            raise UsageError(f"The option {name} can't be {value[:80]!r}.", mend=mend) from None
        raise UsageError(f"The option {name} is wrong: {error}.", mend=f"It is: {option.description}") from None


def _require_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise msgspec.ValidationError("It is not a finite number")
    return value


def _as_json(value: Any) -> Any:
    """A value of JSON's own types."""
    if isinstance(value, Path):
        return os.fspath(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_as_json(each) for each in value]
    return value


def _from_file(path: Path) -> dict[str, Any]:
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


def _from_environment() -> dict[str, Any]:
    """The settings in the environment; a misspelt one may have been meant to make the sandbox stricter."""
    for name in os.environ:
        if name.startswith(PREFIX) and not name.startswith(_NO_SETTINGS):
            _hint(name.removeprefix(PREFIX).lower(), said=name)
    variables = (
        (name, os.environ.get(f"NBAGENT_{name.upper()}")) for name, (_, option) in fields().items() if option.setting
    )
    return {name: _convert(name, text, strict=False) for name, text in variables if text is not None}


def _convert(name: str, value: Any, *, strict: bool) -> Any:
    """Check and convert the value of one setting; a variable of the environment may be JSON."""
    hint = _hint(name, said=name)
    if name == "budget":
        return _budget(value)
    try:
        try:
            return _require_finite(msgspec.convert(value, hint, strict=strict))
        except msgspec.ValidationError as error:
            if strict:
                raise
            words = _in_words(value)
            try:
                return _require_finite(msgspec.convert(words, hint, strict=False))
            except msgspec.ValidationError:
                # A word that is wrong is told as the text that it is, not as the list that it might be.
                if words == [value]:
                    raise error from None
                raise
    except msgspec.DecodeError as error:
        raise UsageError(
            f"The setting {name} is wrong: {error}.", mend=f"See NBAGENT_{name.upper()} and {config_file()}."
        ) from error


def _hint(name: str, *, said: str) -> Any:
    """The type of a setting."""
    hints = {known: hint for known, (hint, option) in fields().items() if option.setting}
    if name not in hints:
        near = difflib.get_close_matches(name, hints, 1)
        named = f"{PREFIX}{near[0].upper()}" if near and said != name else near[0] if near else ""
        if said == name:
            mend = f"Did you mean {named}? See {config_file()}." if named else f"See {config_file()}."
        else:
            mend = f"Did you mean {named}?" if named else f"{PREFIX}… is for settings: remove that variable."
        raise UsageError(f"There is no setting {said[:80]!r}.", mend=mend)
    return hints[name]


def _in_words(text: str) -> Any:
    """What a variable of the environment says: JSON, yes or no, else words with commas between them."""
    if text.strip().lower() in _SWITCHES:
        return _SWITCHES[text.strip().lower()]
    if text.lstrip()[:1] in ("[", "{"):
        return msgspec.json.decode(text)
    return [word for each in text.split(",") if (word := each.strip())]


def _budget(value: Any) -> Budget:
    try:
        return Budget.parse(str(value))
    except UsageError as error:
        raise UsageError(f"The setting budget is wrong. {error.message}", mend=error.mend) from None


def _unreadable(error: Exception) -> UsageError:
    return UsageError(
        f"The settings can't be read: {error}.", mend=f"They are in {config_file()} and in variables NBAGENT_…."
    )
