"""Runs inside of the forge's sandbox: writes a tool and its tests to files, imports it, and describes its function.

`load(…)` returns JSON: `{"schema", "doc", "is_async"}`, or `{"problem"}`.
"""

import collections.abc
import importlib
import importlib.util
import inspect
import json
import os
import sys
import tempfile
import traceback
import types
import typing
from collections.abc import Callable
from typing import Any

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", None: "null", type(None): "null"}
LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
USE = "use str, int, float, bool, None, Literal, and list and dict of these"


class UnfitError(Exception):
    """A function that can't be a tool."""


def load(name: str, code: str, tests: str, lenient: bool) -> str:
    """Load a tool. If this is lenient, a parameter without a known type hint takes any value; else it is refused."""
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        return json.dumps({"problem": f"There is a module {name} already: give the tool another name."})
    folder = tempfile.mkdtemp(prefix="forge-")
    for file, text in ((f"{name}.py", code), (f"test_{name}.py", tests), ("pytest.ini", "[pytest]\n")):
        with open(os.path.join(folder, file), "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        function = getattr(importlib.import_module(name), name)
        if not callable(function):
            raise UnfitError(f"{name} is no function.")
        return json.dumps(described(function, lenient))
    except (KeyboardInterrupt, ModuleNotFoundError):
        # KeyboardInterrupt is the time limit. After ModuleNotFoundError the module is installed, and this runs again.
        sys.path.remove(folder)
        raise
    except UnfitError as unfit:
        return json.dumps({"problem": str(unfit)})
    except BaseException as error:
        shown = "".join(traceback.format_exception(error)[-5:])[-4000:]
        return json.dumps({"problem": f"The code can't be loaded: {type(error).__name__}", "output": shown})
    finally:
        sys.modules.pop(name, None)  # so that a second attempt, and the tests, import it anew


def described(function: Callable[..., Any], lenient: bool) -> dict[str, Any]:
    """A function's parameters as a schema, and its docstring."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception as error:
        if not lenient:
            raise UnfitError(f"Its type hints can't be read: {type(error).__name__}: {error}") from None
        signature = inspect.signature(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if lenient:
                continue
            raise UnfitError(f"The parameter {parameter.name} takes any number of values: name each one.")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise UnfitError(f"The parameter {parameter.name} can't be given by its name.")
        properties[parameter.name] = of_parameter(parameter, lenient)
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    inner = inspect.unwrap(function)
    return {
        "schema": {"properties": properties, "required": required},
        "doc": (inspect.getdoc(inner) or "").partition("\n\n")[0][:1000],
        "is_async": inspect.iscoroutinefunction(inner),
    }


def of_parameter(parameter: inspect.Parameter, lenient: bool) -> dict[str, Any]:
    """The schema of a parameter."""
    if parameter.annotation is parameter.empty and not lenient:
        raise UnfitError(f"The parameter {parameter.name} has no type hint.")
    schema: dict[str, Any] = {}
    try:
        if parameter.annotation is not parameter.empty:
            schema = of_type(parameter.annotation)
    except UnfitError as unfit:
        if not lenient:
            told = f"The parameter {parameter.name} has a type that JSON can't hold, {unfit}: {USE}."
            raise UnfitError(told) from None
    if is_json(parameter.default):
        schema["default"] = parameter.default
    return schema


def of_type(hint: Any, depth: int = 0) -> dict[str, Any]:
    """The schema of a type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if depth > 8:
        raise UnfitError("nested deeply")
    if hint in (typing.Any, object):
        return {}
    if isinstance(hint, type | None) and hint in PLAIN:
        return {"type": PLAIN[hint]}
    if origin is typing.Annotated:
        words = [each for each in arguments[1:] if isinstance(each, str)]
        return of_type(arguments[0], depth + 1) | ({"description": words[0][:500]} if words else {})
    if origin is typing.Literal and all(is_json(each) for each in arguments):
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [of_type(each, depth + 1) for each in arguments]}
    if hint in LISTS or origin in LISTS:
        return {"type": "array"} | ({"items": of_type(arguments[0], depth + 1)} if arguments else {})
    if hint in DICTS:
        return {"type": "object"}
    if origin in DICTS and arguments[:1] == (str,):
        return {"type": "object", "additionalProperties": of_type(arguments[1], depth + 1)}
    raise UnfitError(str(getattr(hint, "__qualname__", hint))[:100])


def is_json(value: Any) -> bool:
    """Whether a value has the same form in JSON."""
    try:
        return len(json.dumps(value, allow_nan=False)) < 2000 and json.loads(json.dumps(value)) == value
    except Exception:
        return False
