"""Reads Python source without running it. Pure."""

from __future__ import annotations

import ast

from nbagent.core.syntax import UNREADABLE, parse

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def problem(text: str) -> str:
    """Why a text is no Python, as a clause; empty if it is."""
    try:
        parse(text)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})" if error.lineno else str(error.msg)
    except UNREADABLE:
        return "it is nested too deeply"
    return ""


def defines(text: str, name: str) -> bool:
    """Whether a module defines a function of that name at its top level."""
    return any(isinstance(each, _Function) and each.name == name for each in parse(text).body)


def imports(text: str, name: str) -> bool:
    """Whether a module imports another one, anywhere in it."""
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == name and not node.level:
            return True
        if isinstance(node, ast.Import) and any(each.name == name for each in node.names):
            return True
    return False


def tests_in(text: str) -> frozenset[str]:
    """The tests that pytest must find in a module: `test_x`, and `TestIt.test_x` for those of a class."""
    found: set[str] = set()
    for node in parse(text).body:
        if isinstance(node, _Function):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, _Function)}
    return frozenset(name for name in found if name.rpartition(".")[2].startswith("test"))


def binds(text: str, name: str) -> bool:
    """Whether code binds a name, anywhere in it. Code that can't be parsed may do so if it contains the name."""
    if name not in text:
        return False
    if problem(text):
        return True  # such as a cell with a magic
    for node in ast.walk(parse(text)):
        match node:
            case ast.Name(id=found, ctx=ast.Store() | ast.Del()):
                pass
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
                pass
            case ast.ExceptHandler(name=found) | ast.MatchAs(name=found) | ast.MatchStar(name=found):
                pass
            case ast.MatchMapping(rest=found):
                pass
            case ast.alias(name=path, asname=other):
                found = other or path.partition(".")[0]
            case _:
                continue
        if found == name:
            return True
    return False


def summary(text: str, name: str) -> str:
    """The first line of a function's docstring, or of the module's; empty if there is none."""
    tree = parse(text)
    functions = [each for each in tree.body if isinstance(each, _Function) and each.name == name]
    found = next((doc for each in (*functions, tree) if (doc := ast.get_docstring(each))), "")
    return found.strip().partition("\n")[0]
