"""Calls whose values need not be constants, where code is read without its data: of containers and functions. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nbagent.agent.made_up.calls import Calls, Named
from nbagent.agent.made_up.values import CODE, Value, made


def _reduced(own: Calls, values: list[Value], _: Named) -> Value:
    whole, *rest = [*values[2:], *own.items(values[1])]
    for each in rest:
        whole = own.applied(values[0], [whole, each])
    return whole


def _next(own: Calls, values: list[Value], _: Named) -> Value:
    items = own.items(values[0])
    if isinstance(values[0].parts, list):
        del values[0].parts[:1]
    return [*items, *values[1:]][0]


def _zipped(own: Calls, values: list[Value], _: Named) -> Value:
    """Items beside each other; of a value whose items aren't known, any of them."""
    known = [own.known_items(each) for each in values]
    count = min(len(each) for each in known if each is not None)  # a ValueError if none is
    own.pay(count * (1 + len(values) // 8))
    sides = [[own.element(one)] * count if each is None else each for one, each in zip(values, known, strict=True)]
    return Value(parts=[Value(parts=[*each]) for each in zip(*sides, strict=False)])


def _paired(own: Calls, values: list[Value], named: Named) -> Value:
    if values and isinstance(values[0].parts, dict):
        own.leaves(values)  # takes steps as there are many
        return Value(parts=values[0].parts | named)
    pairs = [own.items(each) for each in own.items(values[0])] if values else []
    return Value(parts={own.key_of(key): each for key, each in pairs} | named)


def _partial(_: Calls, values: list[Value], __: Named) -> Value:
    function, bound = values
    return Value(code=replace(function.code, self=bound))


def _updated(own: Calls, whole: Value, values: list[Value], named: Named) -> Value:
    if isinstance(whole.parts, dict):
        pairs = _paired(own, values, named).parts
        whole.parts.update(pairs if isinstance(pairs, dict) else {})
        return made(None)
    try:
        items = own.items(values[0])
    except ValueError:
        items = [own.joined(values[0])]
    return own.added(whole, items)


def _pairs(own: Calls, whole: Value) -> list[tuple[Value, Value]]:
    if not isinstance(whole.parts, dict):
        raise TypeError("it is no dictionary")
    own.leaves([whole])  # takes steps as there are many
    own.pay(2 * len(whole.parts))
    return [(Value((key,), frozenset((CODE,))), each) for key, each in whole.parts.items()]


def _got(own: Calls, whole: Value, values: list[Value], __: Named) -> Value:
    if not isinstance(whole.parts, dict):
        raise TypeError("it is no dictionary")
    key = own.key_of(values[0])
    return whole.item(whole.parts[key] if key in whole.parts else values[1])


def _defaulted(own: Calls, whole: Value, values: list[Value], __: Named) -> Value:
    if not isinstance(whole.parts, dict):
        raise TypeError("it is no dictionary")
    return whole.item(whole.parts.setdefault(own.key_of(values[0]), values[1]))


FUNCTIONS: dict[str, Callable[[Calls, list[Value], Named], Value]] = {
    **dict.fromkeys(("exec", "eval", "ast.literal_eval", "json.loads"), lambda own, values, _: own.execute(values)),
    **dict.fromkeys(("compile", "functools.lru_cache", "functools.cache"), lambda _, values, __: values[0]),
    **dict.fromkeys(("list", "tuple", "iter"), lambda own, values, _: Value(parts=own.items(values[0]))),
    **dict.fromkeys(("dict", "collections.Counter", "collections.OrderedDict"), _paired),
    "map": lambda own, values, _: Value(parts=[own.applied(values[0], [each]) for each in own.items(values[1])]),
    "zip": _zipped,
    "functools.reduce": _reduced,
    "functools.partial": _partial,
    "next": _next,
    "setattr": lambda own, values, _: own.put(*values),
    "getattr": lambda own, values, _: own.attribute(values[0], own.plain(values[1])),
    "types.SimpleNamespace": lambda _, __, named: Value(parts=dict(named)),
    "collections.defaultdict": lambda *_: Value(parts={}),
}
"""Functions that are given what need not be a constant, by their full names."""
METHODS: dict[str, Callable[[Calls, Value, list[Value], Named], Value]] = {
    **dict.fromkeys(("append", "add", "appendleft"), lambda own, whole, values, _: own.added(whole, values)),
    **dict.fromkeys(("extend", "update"), _updated),
    **dict.fromkeys(("tolist", "to_list"), lambda _, whole, *__: whole),
    "item": lambda own, whole, *_: own.items(whole)[0],
    "insert": lambda own, whole, values, _: own.added(whole, values[1:]),
    "get": _got,
    "setdefault": _defaulted,
    "keys": lambda own, whole, *_: Value((), whole.sources, [key for key, _ in _pairs(own, whole)]),
    "values": lambda own, whole, *_: Value((), whole.sources, [each for _, each in _pairs(own, whole)]),
    "items": lambda own, whole, *_: Value((), whole.sources, [Value(parts=[*pair]) for pair in _pairs(own, whole)]),
}
"""Methods of containers, of which the parts need not be constants."""
