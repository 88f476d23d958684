"""Finds the programs that a cell starts by reading its code. Pure.

IPython's syntax (`!git`, `%%bash`) is read by IPython's own rules, so that no spelling is missed. In plain Python the
usual ways are found, such as `subprocess` and `os.system`. This is no barrier: code can compute any name. Code that
must start no program needs a sandbox without `allow_subprocess`, where Linux refuses it.
"""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbagent.core import syntax

MAX_CODE_CHARACTERS = 50_000
"""Characters of the longest code with IPython's syntax that is read: IPython's rules take quadratic time."""
PYTHON = "python: "
"""The prefix of a command that is a call in Python, or code that can't be parsed."""

_HARMLESS = frozenset(
    (
        "autoawait autoreload autosave cd clear config connect_info env gui hist history html javascript js latex "
        "load_ext lsmagic magic markdown matplotlib pdef pdoc pfile pinfo pinfo2 pip precision psearch psource "
        "pwd pycat pylab quickref reload_ext reset reset_selective set_env subshell svg who who_ls whos writefile "
        "xdel xmode"
    ).split()
)
"""Magics that start no program. (`%pip` asks for its own approval.)"""
_OF_CODE = frozenset("capture memit prun time timeit".split())
"""Magics whose arguments and body are Python."""
_OF_SHELL = frozenset("! sx system".split())
_OTHERS = frozenset(
    (
        "alias alias_magic autocall automagic bookmark code_wrap colors conda debug dhist dirs doctest_mode ed edit "
        "killbgscripts ldir less load loadpy logoff logon logstart logstate logstop macro mamba man micromamba more "
        "notebook page pastebin pdb popd pprint pushd qtconsole recall rehashx rep rerun run save sc store tb unalias "
        "unload_ext uv"
    ).split()
)
"""All other line magics, so that they are recognised without their `%`, too."""
_ALIASES = frozenset("cat cp ld lf lk ll ls lx man mkdir mv rm rmdir".split())
"""Programs that IPython runs if a one-line cell begins with their name."""
_MODULES = frozenset("pexpect plumbum posix pty sh subprocess".split())
_STARTERS = frozenset(("os", "asyncio", "asyncio.subprocess", "IPython.utils.process"))
"""Modules with functions that start programs."""
_CALLS = re.compile(
    r"system(_raw|_piped)?|popen|Popen|exec[lv]p?e?|spawn([lv]p?e?)?|posix_spawnp?|create_subprocess_(exec|shell)|getoutput"
    r"|getstatusoutput|check_(call|output)|run_(cell|line|ast|code)\w*|subprocess_(exec|shell)"
)
"""Functions that start programs, or run their argument as a cell."""
_TAKES_COMMAND = re.compile(r"run|call|check_call|check_output|Popen|system|popen|getoutput|getstatusoutput")
_HOW = frozenset("capture_output check cwd encoding errors shell stderr stdout text timeout universal_newlines".split())
"""Functions whose one argument is a command, and what of their keywords doesn't say which program it is."""
_FIXED = ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.expr_context
_WORD = re.compile(r"[\w.]+")
_OPTIONS = re.compile(r"\A(?:\s*-\w+(?:\s+\d+)?)+\s+")
_MANY_QUOTED = re.compile(r"(?m)^[^\S\n]{0,99}(?:[,;/]\s{0,9}){20}")
"""What IPython would turn into calls sign by sign, each time reading the whole cell: no code, but minutes."""
_PROMPT = re.compile(r"^[^\S\n]*(?:>>>|\.\.\.|(?:In ?)?\[)", re.MULTILINE)
"""Prompts, which IPython removes."""


@dataclass(frozen=True)
class Programs:
    """The programs that a cell starts.

    Attributes:
        commands: The commands as a shell gets them, magics with their `%`, calls in Python behind `python: `.
        more: Whether the cell does anything else.
    """

    commands: tuple[str, ...] = ()
    more: bool = True


def programs(code: str) -> Programs:
    """Find the programs that a cell starts. Code that can't be parsed counts as a program."""
    try:
        text = _as_python(code)
        found = _in_line(text) or _in_tree(syntax.parse(text, awaits=True))
    except (*syntax.UNREADABLE, RuntimeError):
        return Programs((PYTHON + code,))
    return found


def typed(commands: Sequence[str]) -> str:
    """The first of the programs that a cell starts, as a person types it (see `as_typed`), and how many more it has."""
    calls = [each for each in commands if not each.startswith((f"{PYTHON}import ", f"{PYTHON}from "))]
    first, *more = calls or commands
    return f"{as_typed(first)}, and {len(more)} more" if more else as_typed(first)


def as_typed(command: str) -> str:
    """A command that `programs` has found, on one line: as a person types it, else as the Python that does it."""
    call = command.removeprefix(PYTHON)
    said = _command_of(call) if command.startswith(PYTHON) else ""
    return said if len(said.splitlines()) == 1 else call.splitlines()[0]


def is_bare_import(command: str) -> bool:
    """Whether a command only imports `subprocess` by its own name, so that each of its calls is a command as well."""
    named = command.removeprefix(f"{PYTHON}import ").split(", ")
    return {each for each in named if re.split(r"[ .]", each)[0] in _MODULES} == {"subprocess"}


def _command_of(call: str) -> str:
    """The command that such a call is given as a text or a list of texts; empty if there is more to it."""
    with contextlib.suppress(*syntax.UNREADABLE):
        match syntax.parse(call).body:
            case [ast.Expr(ast.Call(func=ast.Attribute(attr=name, value=of), args=[given], keywords=more))] if (
                _TAKES_COMMAND.fullmatch(name)
                and {each.arg for each in more} <= _HOW
                and all(map(_does_nothing, [of, *(each.value for each in more)]))
            ):
                parts = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
                words = [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
                if words and len(words) == len(parts):
                    return words[0].strip() if parts == [given] else shlex.join(words)
    return ""


def _does_nothing(node: ast.expr) -> bool:
    """Whether an expression is a name, a constant, or a module that is imported by a constant name."""
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute(value=value):
            return _does_nothing(value)
        case ast.Call(func=ast.Name(id="__import__") | ast.Attribute(attr="import_module"), args=[ast.Constant()]):
            return not node.keywords
    return False


def is_fixed(call: str) -> bool:
    """Whether a call in Python says by constants alone what it starts; code that can't be parsed starts only itself."""
    try:
        body = syntax.parse(call).body
    except syntax.UNREADABLE:
        return True
    match body:
        case [ast.Expr(ast.Call(func=ast.Attribute(value=of), args=args, keywords=more))] if args or more:
            given = [*args, *(each.value for each in more)]
            return _does_nothing(of) and all(isinstance(each, _FIXED) for value in given for each in ast.walk(value))
    return False


def _as_python(code: str) -> str:
    """The cell as Python, with IPython's syntax as calls. Magics without `%` are left for `_in_line`."""
    if not _PROMPT.search(code):
        with contextlib.suppress(SyntaxError):
            syntax.parse(code, awaits=True)
            return code
    if len(code) > MAX_CODE_CHARACTERS or (_MANY_QUOTED.search(code) and not code.lstrip().startswith("%%")):
        raise SyntaxError
    from IPython.core.inputtransformer2 import TransformerManager

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformed: str = TransformerManager().transform_cell(code)
    return transformed


def _in_line(text: str) -> Programs | None:
    """The programs of a one-line cell that IPython takes for a magic without its `%`; None for any other cell."""
    line = text.strip()
    found = _WORD.match(line)
    if found is None or len(line.splitlines()) != 1:
        return None
    word, rest = found[0], line[found.end() :].strip()
    if rest.startswith(("=", ",")):
        return None
    if word in _ALIASES:
        return Programs((line,), more=False)
    if word not in (_OF_SHELL | _OF_CODE | _OTHERS):
        return None
    commands = tuple(_in_magic(word, rest, ""))
    return Programs(commands, more=False) if commands else None


def _in_tree(tree: ast.Module) -> Programs:
    commands: list[str] = []
    known: set[int] = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if (found := _in_shell_call(call)) is not None:
            commands += found
            known |= {id(node) for node in ast.walk(call)}
    only = all(isinstance(each, ast.Expr | ast.Assign) and id(each.value) in known for each in tree.body)
    for node in ast.walk(tree):  # parents come before children
        if id(node) not in known and _starts_program(node):
            commands.append(PYTHON + ast.unparse(node))
            known |= {id(each) for each in ast.walk(node)}
    return Programs(tuple(dict.fromkeys(commands)), more=not (commands and only))


def _in_shell_call(call: ast.Call) -> list[str] | None:
    """The commands of a call into which IPython's syntax was turned; None for any other call."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython"), args=[]), attr=name),
            args=arguments,
            keywords=[],
        ):
            words = [each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        case _:
            return None
    if len(words) != len(arguments):
        return None
    match name, words:
        case ("system" | "getoutput", [command]):
            return [command.strip()]
        case ("run_line_magic", [magic, line]):
            return list(_in_magic(magic, line, ""))
        case ("run_cell_magic", [magic, line, body]):
            return list(_in_magic(magic, line, body))
    return None


def _in_magic(magic: str, line: str, body: str) -> Iterator[str]:
    if magic in _OF_SHELL:
        yield f"{line}\n{body}".strip()
    elif magic in _OF_CODE:
        inside = body if magic == "capture" else f"{_OPTIONS.sub('', line)}\n{body}".strip()
        yield from programs(inside).commands if inside else ()
    elif magic not in _HARMLESS:
        head = f"{'%%' if body else '%'}{magic} {line}".rstrip()
        yield f"{head}\n{body}".strip()


def _starts_program(node: ast.AST) -> bool:
    """Whether a node starts a program, or runs code that can't be read here."""
    match node:
        case ast.Import(names=names):
            return any(each.name.partition(".")[0] in _MODULES for each in names)
        case ast.ImportFrom(module=str(module), names=names):
            starts = module in _STARTERS and any(each.name == "*" or _CALLS.fullmatch(each.name) for each in names)
            return starts or module.partition(".")[0] in _MODULES
        case ast.Attribute(value=ast.Name(id="os" | "posix" | "pty"), attr=name):
            return bool(_CALLS.fullmatch(name))
        case ast.Attribute(value=ast.Name(id="subprocess")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="subprocess"))):
            return True
        case ast.Call(func=ast.Attribute(attr=name), args=[_, *_]):
            return bool(_CALLS.fullmatch(name)) or _names_module(node, name)
        case ast.Call(func=ast.Name(id="get_ipython")):
            return True
        case ast.Call(func=ast.Name(id="exec" | "eval"), args=[given, *_]):
            text = given.value if isinstance(given, ast.Constant) else None
            return not isinstance(text, str) or bool(programs(text).commands)
        case ast.Call(func=ast.Name(id=name), args=[_, *_]):
            return _names_module(node, name)
    return False


def _names_module(call: ast.Call, function: str) -> bool:
    """Whether a call imports such a module, or looks up such a function, by a string."""
    words = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if function in ("__import__", "import_module"):
        return any(each.partition(".")[0] in _MODULES for each in words) or not words
    return function == "getattr" and any(_CALLS.fullmatch(each) for each in words[-1:])
