"""What a model may want to do that needs consent, and rules of what is allowed. Pure."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from dataclasses import dataclass
from typing import Literal

from nbagent.errors import UsageError
from nbagent.safety.programs import PYTHON, programs

Kind = Literal["cell", "shell", "edit", "install", "mcp", "tool", "budget", "names"]
"""Of an action. `shell` is a program, and a cell that starts one; `edit` writes a file; `tool` makes a tool to keep;
`names` asks the package index for more names than code may by itself."""
_SEVERAL = re.compile(rf"[;&|`$<>{{\n]|^%|^{PYTHON}")
"""What makes more of a command than one program with its words: no pattern speaks for that. IPython fills in `{…}`."""
_RUNNERS = frozenset(
    (
        "ash bash builtin busybox chroot command csh dash doas env eval exec find fish flock ksh nice nohup parallel "
        "runuser script setsid sh source ssh stdbuf su sudo tcsh time timeout unshare watch xargs zsh strace ."
    ).split()
)
"""Programs that run whatever they are told to: who allows one command of theirs has not allowed the next."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """Something that needs consent.

    Attributes:
        kind: Of what kind it is.
        tool: What does it: the model's tool by its name.
        what: What it is about, in one line: the command, the packages with their versions, `server: tool`.
        code: The code that will run, or the arguments; what an answer may edit.
        packages: For an install, each package with its version.
        path: For a file, where it is.
        commands: For a cell, the programs that it starts.
        more: For a cell, whether it does anything besides.
        note: What else a person should know, such as what a tool says of itself.
        turn: The question that it belongs to.
        anyway: Whether it is asked about in any mode and by any rule.
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
        """What rules of an allow list must allow, all of it."""
        if self.packages:
            return tuple(f"install:{each.partition('==')[0]}" for each in self.packages)
        if self.commands:
            return (*(("cell:",) if self.more else ()), *(f"shell:{each}" for each in self.commands))
        if self.path:
            return (f"{self.kind}:{posixpath.normpath(self.path)}",)
        return (f"{self.kind}:{'' if self.kind in ('cell', 'budget') else self.what}",)

    @property
    def rules(self) -> tuple[str, ...]:
        """What a person allows who allows this for the session: all cells, this program, these packages, this tool.

        Nothing for a budget or for names beyond an allowance, which would be none any more.
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
            # What stands before a program, a variable for it for example, is not its name.
            alone = _SEVERAL.search(command) or re.search(r"[^\w./+-]", program)
            if alone or posixpath.basename(program) in _RUNNERS:
                allowed.append(f"shell:{_literal(command)}")
            else:
                allowed += [f"shell:{_literal(program)}", f"shell:{_literal(program)} *"]
        return tuple(dict.fromkeys(allowed))


def of_cell(code: str, *, tool: str, turn: int) -> Action:
    """The action of running a cell."""
    found = programs(code)
    first = next((line.strip() for line in code.splitlines() if line.strip()), "")
    what = found.commands[0].splitlines()[0] if found.commands else first
    kind: Kind = "shell" if found.commands else "cell"
    return Action(kind=kind, tool=tool, what=what, code=code, commands=found.commands, more=found.more, turn=turn)


def allows(rule: str, subject: str) -> bool:
    """Whether a rule speaks for a subject; for several programs in one line only one that names them all, or any."""
    if subject.startswith("shell:") and _SEVERAL.search(subject.removeprefix("shell:")):
        return rule in ("shell:*", _literal(subject))
    return fnmatch.fnmatchcase(subject, rule)


def parse_rule(text: str) -> str:
    """A rule in the form in which subjects are matched.

    Raises:
        UsageError: It has not the form of one.
    """
    kind, colon, pattern = text.strip().partition(":")
    if kind not in ("cell", "shell", "edit", "install", "mcp", "tool"):
        raise UsageError(f"{text!r} is no rule of an allow list.", mend="Write KIND:PATTERN, such as install:polars.")
    if kind == "install":
        pattern = re.sub(r"[_.](?![^[]*\])", "-", pattern).lower()  # as the names of packages are normalised
    return f"{kind}:{pattern if colon else '*'}"


def _literal(subject: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", subject)
