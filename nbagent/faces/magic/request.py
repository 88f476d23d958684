"""What a person typed after `%agent`, taken apart; and how IPython is to read such lines. Pure."""

from __future__ import annotations

import difflib
import re
from typing import Any, Final

import msgspec

from nbagent.core.errors import UsageError

VERBS: Final = {
    "status": ("", "what session this is, where its code runs, and what it was set to"),
    "stop": ("", "stop what runs"),
    "reset": ("", "end this session; the next question begins a new one"),
    "history": ("", "the questions so far, with their answers"),
    "usage": ("", "tokens and money so far"),
    "export": ("PATH", "write the session's notebook"),
    "verify": ("", "run the session's notebook in a fresh sandbox, and say what differs"),
    "model": ("NAME", "which model is asked from now on"),
    "trust": ("LEVEL", "ends the session; the next question begins a sandbox of that trust level"),
    "approve": ("MODE", "what you are asked about: ask, auto-edit, allow-list or never-ask"),
    "files": ("", "the files in the sandbox"),
    "install": ("PACKAGE", "install a package for the session"),
    "undo": ("", "take the last answer back: variables that -o replaced are again what they were"),
    "insert": ("[all|N]", "put the cells of the last answer below, or all, or cell N"),
    "fix": ("", "have the error of your last cell explained, and a changed cell proposed"),
    "explain": ("", "have your last output explained"),
    "help": ("", "this list"),
}
"""The subcommands, each with its argument and what it does; with more words than that, the line is a question."""
FLAGS: Final = {
    "-i": ("give", "NAME", "a variable that goes into the sandbox; `@name` in the question does the same"),
    "-o": ("take", "NAME", "a variable that comes back"),
    "--session": ("session", "NAME", "one of several sessions, by a name of yours"),
    "--model": ("model", "NAME", "provider:model"),
    "--trust": ("trust", "LEVEL", "isolated, sandboxed, untrusted or trusted, for a new session"),
    "--engine": ("engine", "NAME", "the engine, for a new session"),
    "--approve": ("approvals", "MODE", "what you are asked about"),
    "--kernel": ("kernel", "FILE", "a kernel that runs already, by its connection file, for a new session"),
    "--data": ("data", "PATH", "a file or folder that the code sees, for a new session"),
    "--max-mb": ("max_mb", "MB", "how large a variable may be that goes over unasked"),
}
"""The options before a question: where each goes, its argument, what it does."""
GIVEN: Final = "These variables are in the kernel now"
TAKEN: Final = "Leave the result in the variable"
TAKEN_BACK: Final = "[The person took your last answer back: go on as if it had not been given.]"
"""What the model is told behind a question begins with one of these."""
_NEEDED: Final = frozenset(["PATH", "PACKAGE"])
_LISTS: Final = frozenset(["give", "take", "data"])
_MENTION = re.compile(r"(?<![\w@.])@([A-Za-z_]\w*)\b(?!@)")
_TOLD = re.compile("\n\n(?:" + "|".join(map(re.escape, (GIVEN, TAKEN, TAKEN_BACK))) + ")")
_QUESTION = re.compile(r"^(\s*(?:\w+\s*=\s*)?)%agent[ \t]+(\S.*\?)\s*$")
_CALL = re.compile(r"^((?:\w+\s*=\s*)?)get_ipython\(\)\.run_(line|cell)_magic\('agent', ")
_ALONE = re.compile(r"^(get_ipython\(\)\.run_(?:line|cell)_magic\('agent', .*\))\n?\Z")
_WORD = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(\S+))""")


class Request(msgspec.Struct, kw_only=True):
    """What is wanted.

    Attributes:
        verb: A subcommand; empty for a question.
        argument: Of the subcommand.
        question: The question, as it was typed.
        give: Names of variables that go into the sandbox, in the order in which they were named.
        take: Names of variables that come back.
        session: The name of the session that is meant; empty for this kernel's own.
        max_mb: Megabytes that a variable may have; None for the default.
        options: Options of a new session, by their keywords.
    """

    verb: str = ""
    argument: str = ""
    question: str = ""
    give: list[str] = []
    take: list[str] = []
    session: str = ""
    max_mb: float | None = None
    options: dict[str, Any] = {}


def parse(line: str, body: str | None = None) -> Request:
    """Take apart the rest of a line with `%agent` or `%%agent`, and the lines below `%%agent`."""
    found, rest = _flags(line)
    if body is None:
        verb, _, argument = rest.partition(" ")
        if _is_verb(verb, argument.strip()):
            if found.pop("give", None) or found.pop("take", None):
                raise UsageError(f"%agent {verb} takes no variables.", mend="Leave out -i and -o.")
            if not argument and VERBS[verb][0] in _NEEDED:
                raise UsageError(f"%agent {verb} needs a {VERBS[verb][0].lower()}.", mend="See: %agent help")
            return _request(found, verb=verb, argument=argument.strip().strip("\"'"))
        question = rest
    else:
        question = f"{rest}\n{body}" if rest else body
    question = question.strip()
    if not question:
        raise UsageError("The question is empty.", mend="Ask something: %agent What is in this data?  Or: %agent help")
    return _request(found, question=question)


def mentioned(question: str) -> list[str]:
    """The names behind an `@` in a question, each once, such as `df` in `plot @df by month`."""
    return list(dict.fromkeys(_MENTION.findall(question)))


def as_asked(question: str) -> str:
    """A question of the session as the person typed it, without what the model is told behind it."""
    return _TOLD.split(question, maxsplit=1)[0]


def usage() -> str:
    """What can be typed, for `%agent help` and `%agent?`."""
    rows = [("%agent QUESTION", "ask; %%agent takes a question of several lines")]
    rows += [(f"%agent {verb} {argument}".rstrip(), told) for verb, (argument, told) in VERBS.items()]
    flags = [(f"{flag} {argument}", told) for flag, (_, argument, told) in FLAGS.items()]
    width = max(len(left) for left, _ in (*rows, *flags))
    lines = [f"{left:<{width}}  {told}" for left, told in rows]
    return "\n".join([*lines, "", *(f"{left:<{width}}  {told}" for left, told in flags)])


def _is_verb(verb: str, argument: str) -> bool:
    """Whether this is a subcommand: its argument is one word, if it takes any. More words make a question."""
    if verb not in VERBS or not argument:
        return verb in VERBS
    return bool(VERBS[verb][0]) and (len(argument.split()) == 1 or argument[0] in "\"'")


def _flags(line: str) -> tuple[dict[str, Any], str]:
    """The options that a line begins with, and the rest as it was typed: a question may have any signs."""
    found: dict[str, Any] = {}
    rest = line.strip()
    while rest.startswith("-") and not rest.startswith("- "):
        word, _, after = rest.partition(" ")
        if word == "--":
            return found, after.lstrip()
        name, equals, value = word.partition("=")
        if name not in FLAGS:
            near = difflib.get_close_matches(name, FLAGS, n=1)
            mend = f"Did you mean {near[0]}?" if near else f"Use one of: {', '.join(FLAGS)}."
            raise UsageError(f"There is no option {name}.", mend=mend)
        if not equals:
            if (matched := _WORD.match(after)) is None:
                raise UsageError(f"{name} needs a value.", mend=f"Write it as: {name} {FLAGS[name][1]}")
            value, after = next(group for group in matched.groups() if group is not None), after[matched.end() :]
        _note(found, FLAGS[name][0], value)
        rest = after.lstrip()
    return found, rest


def _note(found: dict[str, Any], key: str, value: str) -> None:
    if key not in _LISTS:
        found[key] = value
        return
    values = [value] if key == "data" else [each for each in value.split(",") if each]
    for each in values:
        if key != "data" and not each.isidentifier():
            raise UsageError(
                f"{each!r} is no name of a variable.", mend="Give names: -i df -i prices, or -i df,prices."
            )
    found.setdefault(key, []).extend(values)


def _request(found: dict[str, Any], **more: Any) -> Request:
    own: dict[str, Any] = {key: found.pop(key) for key in ("give", "take", "session") if key in found}
    if (given := found.pop("max_mb", None)) is not None:
        try:
            own["max_mb"] = float(given)
        except ValueError:
            raise UsageError(f"{given!r} is no number of MB.", mend="For example: --max-mb 2000") from None
    if question := more.get("question"):
        own["give"] = list(dict.fromkeys([*own.get("give", ()), *mentioned(question)]))
    return Request(**own, **more, options=found)


def keep_questions(lines: list[str]) -> list[str]:
    """Turn a magic that ends with a question mark into its call: IPython takes such a line for a wish for help.

    A `%%agent` without lines below is one too: IPython would name a magic that nobody has typed.
    """
    if lines and lines[0].startswith("%%"):
        if not re.match(r"%%agent\b", lines[0]) or "".join(lines[1:]).strip():
            return lines
        lines = [lines[0][1:]]
    return [
        f"{found[1]}get_ipython().run_line_magic('agent', {found[2]!r})\n" if (found := _QUESTION.match(line)) else line
        for line in lines
    ]


def await_magics(lines: list[str]) -> list[str]:
    """Have magics at the beginning of a line awaited."""
    return [_CALL.sub(r"\1await get_ipython().run_\2_magic('_agent_awaited', ", line) for line in lines]


def hush_magics(lines: list[str]) -> list[str]:
    """Have a terminal not write `Out[3]:` below an answer, which has been shown."""
    return [_ALONE.sub(r"\1;\n", line) for line in lines]


await_magics.has_side_effects = True  # type: ignore[attr-defined]  # so that IPython doesn't try it on unfinished input
