"""Actions of the model that a person may have to approve, and the rules of an allow list. Pure."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nbagent.core.errors import UsageError
from nbagent.safety.programs import PYTHON, as_typed, is_bare_import, is_fixed, programs, typed

Kind = Literal["cell", "shell", "edit", "install", "mcp", "tool", "budget", "names"]
"""The kind of an action. `shell` runs a program, or a cell that starts one; `edit` writes a file; `tool` makes a tool;
`budget` uses more than was granted; `names` asks the package index for more names than code may by itself."""
_SEVERAL = re.compile(rf"[;&|`$<>{{\n]|^%|^{PYTHON}")
"""Signs with which a command may be more than one program with its arguments, so that only a rule for the whole command
or for all commands matches it. IPython replaces `{…}` by values."""
_RUNNERS = frozenset(
    (
        "ash bash builtin busybox chroot command csh dash doas env eval exec find fish flock ksh nice nohup parallel "
        "runuser script setsid sh source ssh stdbuf su sudo tcsh time timeout unshare watch xargs zsh strace ."
    ).split()
)
"""Programs that run other programs: a rule for one of their commands must not allow all others."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """An action that may need approval.

    Attributes:
        tool: The name of the model's tool that does it.
        what: One line that describes it: the command, the packages with their versions, `server: tool`.
        code: The code that will run, or the arguments; a person may edit it.
        packages: For an install, each package with its version.
        path: For a file, its path.
        commands: For a cell, the programs that it starts.
        more: For a cell, whether it does anything besides starting programs.
        note: What else a person should know, such as a tool's description.
        turn: The number of the question that it belongs to.
        anyway: Whether a person is asked in every mode, whatever the rules allow.
    """

    kind: Kind
    tool: str
    what: str
    code: str = ""
    packages: tuple[str, ...] = ()
    path: str = ""
    commands: tuple[str, ...] = ()
    more: bool = True
    note: str = ""
    turn: int = 0
    anyway: bool = False

    @property
    def subjects(self) -> tuple[str, ...]:
        """The texts that are matched with the rules of an allow list; a rule must allow each of them."""
        if self.packages:
            return tuple(f"install:{each.partition('==')[0]}" for each in self.packages)
        if self.commands:
            return (*(("cell:",) if self.more else ()), *(f"shell:{each}" for each in self.commands))
        if self.path:
            return (f"{self.kind}:{posixpath.normpath(self.path)}",)
        return (f"{self.kind}:{'' if self.kind in ('cell', 'budget') else self.what}",)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that are added if a person allows this for the session: all cells, this program, these packages.

        There are none for a budget and for names beyond the allowance, which would have no bound any more.
        """
        if self.kind in ("budget", "names"):
            return ()
        if self.kind in ("cell", "edit"):
            return (f"{self.kind}:*",)
        if self.kind != "shell":
            return tuple(map(_literal, self.subjects))
        allowed = ["cell:*"] if self.commands and self.more else []
        for command in self.commands or (self.what,):
            program = command.split(" ")[0]
            # In `A=1 git …`, the first word is an assignment, not the program.
            alone = _SEVERAL.search(command) or re.search(r"[^\w./+-]", program)
            if alone or posixpath.basename(program) in _RUNNERS:
                allowed.append(f"shell:{_literal(command)}")
            else:
                allowed += [f"shell:{_literal(program)}", f"shell:{_literal(program)} *"]
        return tuple(dict.fromkeys(allowed))


_NOUNS = {
    "cell": ("the cell", "every cell"),
    "shell": ("the command", "every program"),
    "edit": ("the file", "every change of a file"),
    "install": ("the package", "every package"),
    "mcp": ("the MCP tool", "every MCP tool"),
    "tool": ("the tool", "every new tool"),
}
"""How a person calls what a rule of a kind is about: one, and all."""


def of_cell(code: str, *, tool: str, turn: int) -> Action:
    """The action of running a cell, with the programs that it starts."""
    found = programs(code)
    first = next((line.strip() for line in code.splitlines() if line.strip()), "")
    what = typed(found.commands) if found.commands else first
    kind: Kind = "shell" if found.commands else "cell"
    return Action(kind=kind, tool=tool, what=what, code=code, commands=found.commands, more=found.more, turn=turn)


def allows(rule: str, subject: str) -> bool:
    """Whether a rule allows a subject. One for several programs must name the whole command, or be `shell:*`."""
    if subject.startswith("shell:") and _SEVERAL.search(subject.removeprefix("shell:")):
        return rule in ("shell:*", _literal(subject))
    return fnmatch.fnmatchcase(subject, rule)


def in_words(rules: Sequence[str]) -> str:
    """What rules allow, as a person says it, the widest first."""
    found = []
    for rule in rules:
        kind, _, pattern = rule.partition(":")
        subject = re.sub(r"\[([*?[])\]", r"\1", pattern)  # a sign that stands for itself is in brackets
        one, every = _NOUNS.get(kind, (kind, kind))
        if kind == "shell" and f"{rule} *" in rules:
            one = "the program"
        if pattern == "*":
            found.append(every)
        elif kind == "shell" and subject.startswith(PYTHON):
            found.append(_python_in_words(subject))
        elif not (pattern.endswith(" *") and rule.removesuffix(" *") in rules):
            found.append(f"{one} {subject}")
    # What a bare import is for is told by the calls.
    told = sorted(filter(None, dict.fromkeys(found)), key=lambda each: not each.startswith("every "))
    return ", ".join(told or ["a cell that imports subprocess"] * bool(found))


def _python_in_words(command: str) -> str:
    """What a rule for Python that starts a program allows, as a person says it; nothing for a bare import."""
    said, (first, *more) = as_typed(command), command.removeprefix(PYTHON).splitlines()
    if said != first:
        return f"the command {said}"
    if said.startswith(("import ", "from ")):
        return "" if is_bare_import(command) else f"every program that code starts after {said}"
    if more:
        return f"the code {said} …"
    return f"the code {said}" if is_fixed(first) else f"every program that code starts by {said}"


def parse_rule(text: str) -> str:
    """Check and normalise a rule that a person wrote."""
    kind, colon, pattern = text.strip().partition(":")
    if kind not in _NOUNS:
        raise UsageError(f"{text!r} is no rule of an allow list.", mend="Write KIND:PATTERN, such as install:polars.")
    if kind == "install":
        pattern = re.sub(r"[_.](?![^[]*\])", "-", pattern).lower()  # as names of packages are normalised
    return f"{kind}:{pattern if colon else '*'}"


def _literal(subject: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", subject)
