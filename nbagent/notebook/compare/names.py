"""What the code of cells does with names: which it gives values, changes, mentions and shows. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from nbagent.notebook.lock import unparsed

_SHOWS = re.compile(
    r"\b(?:print|display|\w*plot|hist\w*|scatter\w*|barh?|imshow|pcolormesh|contourf?|errorbar|step|pie|heatmap)$"
)

_WRITES = re.compile(r"(?:to|write|save|export)_(?!text|bytes)\w+|save\w*|export|dump")
"""Methods that write down what their object has, which stays as it is."""
_QUESTION = re.compile(
    r"\s*(?:select|with|from|show|describe|summarize|explain)\s(?!.*\b(?:create|delete|insert|into|merge|update)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""A sentence of SQL that only reads."""


def called_in(node: ast.AST) -> Iterator[str]:
    """The last names of the functions that code calls."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            yield each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")


def shown_by(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """What code shows, as far as it is plain: what it prints, draws and ends with, part by part."""
    rest = [body[-1].value] if body and isinstance(body[-1], ast.Expr) else []
    for node in (each for statement in body for each in ast.walk(statement)):
        if isinstance(node, ast.Call) and _SHOWS.search(unparsed(node.func)):
            rest += [*node.args, *(each.value for each in node.keywords)]
    while rest:
        match rest.pop():
            case ast.JoinedStr(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                rest += parts
            case ast.Dict(values=parts):
                rest += parts
            case ast.FormattedValue(value=part) | ast.Starred(value=part):
                rest.append(part)
            case ast.BinOp(left=ast.Constant(), op=ast.Mod(), right=part):
                rest.append(part)
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="format"), args=parts):
                rest += parts
            case ast.Call(func=function) if _SHOWS.search(unparsed(function)):
                pass
            case part:
                yield part


def bound_by(statement: ast.AST) -> Iterable[str]:
    """The names that a statement gives a value, or a part of one."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def given_by(statement: ast.stmt, pattern: re.Pattern[str], names: set[str]) -> set[str]:
    """The names that come of a source, with those to which a statement gives what comes of it, line by line."""
    found = set(names)
    inner = [each for each in ast.walk(statement) if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign)]
    for each in sorted(inner, key=lambda one: one.lineno):
        text = unparsed(each.value) if each.value else ""
        if pattern.search(text) or words_of(text) & found:
            found |= set(bound_by(each))
    return found


def changed_by(statement: ast.stmt) -> Iterable[tuple[str, str]]:
    """The names whose values a statement changes: by an item or attribute, or by a method, with what that is given."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call):
            if isinstance(call.func, ast.Attribute) and not _WRITES.fullmatch(call.func.attr) and not _asks(call):
                given = (*call.args, *(each.value for each in call.keywords))
                yield root_of(call.func), " ".join(map(unparsed, given)) or "()"
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield root_of(node), ""


def _asks(node: ast.expr) -> bool:
    """Whether a chain of calls is given a sentence of SQL that changes nothing."""
    while isinstance(node, ast.Attribute | ast.Call):
        match node:
            case ast.Call(args=[ast.Constant(value=str(sentence)), *_]) if _QUESTION.match(sentence):
                return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return False


def mentioned_in(node: ast.AST) -> set[str]:
    """The names in code, and the words of its sentences, such as those in SQL."""
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and " " in each.value:
            found |= words_of(each.value)
    return found


def words_of(text: str) -> set[str]:
    """The words of a text."""
    return set(re.findall(r"\w+", text))


def root_of(node: ast.expr) -> str:
    """The name at the beginning of `name.attribute[item].method`; empty if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
