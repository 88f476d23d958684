"""Prints `panel/src/events.ts`: the events and the messages of the panel's server part as types of TypeScript.

And the characters that nobody sees, of which nbagent has one list.

A field that has a default may be missing: an old log doesn't have it, and a request needn't. What the server says
itself is whole.
"""

import enum
import inspect
import re
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from nbagent.core import events
from nbagent.core.text import BLANK
from nbagent.faces.lab import channel_messages, job_messages, messages

PLAIN: dict[Any, str] = {
    str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Path: "string",
    Any: "any", msgspec.Raw: "unknown", object: "unknown",
}  # fmt: skip
HEAD = (
    "// Made by .ci/panel_types.py of nbagent/core/events, nbagent/core/text.py and the messages in nbagent/faces/lab:"
    " change those.\n"
)
MESSAGES = (messages, job_messages, channel_messages)


class Writer:
    """Writes each type once, those that it needs first."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._known: dict[type, str] = {}

    def of(self, hint: Any) -> str:
        """A type's name, or its words."""
        if hint == events.Event and self.parts:
            return "Event"
        if hint in PLAIN:
            return PLAIN[hint]
        origin, inside = get_origin(hint), get_args(hint)
        if origin is Literal:
            return " | ".join(f"'{each}'" for each in inside)
        if origin in (Union, types.UnionType):
            return " | ".join(dict.fromkeys(self.of(each) for each in inside))
        if origin is dict:
            return f"{{ [name: string]: {self.of(inside[1])} }}"
        if origin in (list, tuple):
            item = self.of(inside[0])
            return f"({item})[]" if " " in item else f"{item}[]"
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self.struct(hint)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return " | ".join(f"'{each.value}'" for each in hint)
        raise TypeError(f"There is no TypeScript for {hint}.")

    def struct(self, kind: type[msgspec.Struct]) -> str:
        """Write a struct; returns its name."""
        if kind in self._known:
            return self._known[kind]
        name = self._known[kind] = kind.__name__
        hints, fields = get_type_hints(kind), msgspec.structs.fields(kind)
        is_whole = kind.__module__ in [each.__name__ for each in MESSAGES] and not _may_lack(kind)
        lines = [f"  type: '{name}';"] if kind.__struct_config__.tag_field == "type" else []
        for field in fields:
            mark = "" if field.required or is_whole else "?"
            lines.append(f"  {field.encode_name}{mark}: {self.of(hints[field.name])};")
        first = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
        self.parts.append("\n".join([f"/** {first} */", f"export interface {name} {{", *lines, "}"]))
        return name

    def alias(self, name: str, hint: Any, about: str) -> None:
        """Write a name for a type."""
        self.parts.append(f"/** {about} */\nexport type {name} = {self.of(hint)};")


def _may_lack(kind: type[msgspec.Struct]) -> bool:
    """Whether what equals its default may be left out: a page makes it, or the server leaves it out itself."""
    return bool(kind.__struct_config__.forbid_unknown_fields or kind.__struct_config__.omit_defaults)


def main() -> None:
    """Write all that goes over the wire."""
    writer = Writer()
    writer.alias("Event", events.Event, "What happened.")
    writer.struct(events.Record)
    for module in MESSAGES:
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, msgspec.Struct) and each.__module__ == module.__name__:
                writer.struct(each)
    number = f"/** The number of the protocol that these are of. */\nexport const PROTOCOL = {messages.PROTOCOL};"
    signs = re.sub("[^-]", lambda found: f"\\u{{{ord(found[0]):x}}}", BLANK)
    blank = (
        "/** Letters, marks and symbols that nobody sees, as a class of a regular expression has them. */\n"
        f"export const BLANK = String.raw`{signs}`;"
    )
    print(HEAD, number, blank, *writer.parts, sep="\n")


main()
