"""The budget of one question: money, tokens, minutes, steps. Pure.

Budget.parse("0.50 usd, 200k tokens")         reads what a person wrote
budget.used_up(spent)                         the kinds of which nothing is left
budget.with_more(kinds, grant, spent=spent)   the budget after a person has granted as much again
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args

from nbagent.core.errors import UsageError

Kind = Literal["money", "tokens", "minutes", "steps"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
DEFAULT_STEPS: Final = 30
"""Calls of the model that a question may take by default."""
MAX_AMOUNT: Final = 1_000_000_000
"""The largest amount of any kind; a larger one is taken for a typing error."""
_PART = re.compile(
    r"(?P<dollar>\$?)\s*(?P<amount>[0-9]+(?:_[0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+)\s*(?P<unit>[km]\s+tok[a-z]*|[a-z$]*)",
    re.IGNORECASE,
)
_UNITS: Final[Mapping[str, tuple[Kind, float]]] = {
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), ("money", 1.0)),
    **dict.fromkeys(("token", "tokens", "tok"), ("tokens", 1.0)),
    **dict.fromkeys(("ktoken", "ktokens", "ktok"), ("tokens", 1e3)),
    **dict.fromkeys(("mtoken", "mtokens", "mtok"), ("tokens", 1e6)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), ("minutes", 1.0)),
    **dict.fromkeys(("h", "hour", "hours"), ("minutes", 60.0)),
    **dict.fromkeys(("step", "steps", "call", "calls"), ("steps", 1.0)),
}
_NAMES: Final[Mapping[Kind, str]] = {"money": "US dollars", "tokens": "tokens", "minutes": "minutes", "steps": "calls"}
_FORM = "Write amounts with their units, such as: 0.50usd, 200k tokens, 10min, 20steps."


@dataclass(frozen=True, kw_only=True)
class Spent:
    """The amounts that a question has used so far.

    Attributes:
        money: US dollars; None if the price of a model isn't known.
        tokens: Tokens in and out, cached ones included; None if a provider didn't report them.
        minutes: Minutes, without those in which a person was asked.
        steps: Calls of the model.
    """

    money: float | None = 0.0
    tokens: int | None = 0
    minutes: float = 0.0
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The amounts that one question may use; None for no bound.

    The budget is checked before each call of the model, so one call or cell may exceed it.

    Attributes:
        money: US dollars, by the price list.
        tokens: Tokens in and out: each call sends the whole conversation again.
        minutes: Minutes, without those in which a person was asked for more or for an approval.
        steps: Calls of the model.

    Raises:
        UsageError: An amount is not above zero.
    """

    money: float | None = None
    tokens: int | None = None
    minutes: float | None = None
    steps: int | None = DEFAULT_STEPS

    def __post_init__(self) -> None:
        for kind in KINDS:
            bound = getattr(self, kind)
            if bound is not None and not 0 < bound <= MAX_AMOUNT:
                raise UsageError(f"A budget of {bound:g} {_NAMES[kind]} is none.", mend=_FORM)

    @classmethod
    def read(cls, value: Any, *, base: Budget | None = None) -> Budget:
        """A budget that was given as text, see `parse`, or as a `Budget`.

        Raises:
            UsageError: It is neither, or the text is wrong.
        """
        if isinstance(value, str):
            return cls.parse(value, base=base)
        if not isinstance(value, cls):
            raise UsageError(f"A budget is a text, not {type(value).__name__}.", mend=_FORM)
        return value

    @classmethod
    def parse(cls, text: str, *, base: Budget | None = None) -> Budget:
        """Read a budget that a person wrote: amounts with units, divided by commas.

        Args:
            text: Such as `0.50usd, 200k tokens, 10min, 20steps`; each kind at most once.
            base: The budget whose amounts hold for kinds that the text doesn't name; the default budget by default.

        Raises:
            UsageError: The text has another form, or an amount is zero.
        """
        found: dict[str, Any] = {}
        for part in filter(None, map(str.strip, text.split(","))):
            kind, amount = _parse_part(part)
            if kind in found:
                raise UsageError(f"The budget {text!r} names its {kind} twice.", mend=_FORM)
            found[kind] = amount
        return replace(base or cls(), **found)

    def used_up(self, spent: Spent) -> list[Kind]:
        """The kinds of which nothing is left. An amount that isn't known counts as used up."""
        used: list[Kind] = []
        for kind in KINDS:
            bound, amount = getattr(self, kind), getattr(spent, kind)
            if bound is not None and (amount is None or amount >= bound):
                used.append(kind)
        return used

    def with_more(self, kinds: Iterable[Kind], grant: Budget, *, spent: Spent) -> Budget:
        """The budget after a person's grant: for each of the kinds, as much more as `grant` has, counted from now.

        A kind whose use isn't known has no bound from then on.
        """
        more: dict[str, Any] = {}
        for kind in kinds:
            bound, extra, used = getattr(self, kind), getattr(grant, kind), getattr(spent, kind)
            more[kind] = None if used is None else max(bound, used) + extra
        return replace(self, **more)

    def told(self, kinds: Iterable[Kind], spent: Spent) -> str:
        """The use of some kinds in words: `$0.52 of $0.50 and 31 of 30 calls of the model`."""
        return " and ".join(_usage(kind, getattr(spent, kind), getattr(self, kind)) for kind in kinds)

    def __str__(self) -> str:
        """The bounds in words."""
        bounds = {each.name: getattr(self, each.name) for each in fields(self)}
        return ", ".join(amount(kind, bounds[kind]) for kind in KINDS if bounds[kind] is not None) or "no bound"


def dollars(value: float) -> str:
    """An amount of money as text; small amounts with two significant digits."""
    return (
        f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}" if value >= 0.0001 else "less than $0.0001"
    )


def amount(kind: Kind, value: float) -> str:
    """An amount of a kind as text, with its unit."""
    if kind == "money":
        return dollars(value)
    unit = {"tokens": "token", "minutes": "minute", "steps": "call"}[kind]
    return f"{_number(kind, value)} {unit}{'' if value == 1 else 's'}{' of the model' if kind == 'steps' else ''}"


def _usage(kind: Kind, used: float | None, bound: float) -> str:
    if used is None:
        return f"an unknown part of {amount(kind, bound)}"
    return f"{dollars(used) if kind == 'money' else _number(kind, used)} of {amount(kind, bound)}"


def _number(kind: Kind, value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0") if kind == "minutes" else f"{value:,.0f}"


def _parse_part(part: str) -> tuple[Kind, float | int]:
    """Read one part of a budget: `$2`, `200k tokens`, `2M tok`; `10m` are minutes."""
    match = _PART.fullmatch(part)
    unit = "".join(match["unit"].lower().split()) if match else ""
    if match and match["dollar"]:
        unit = "$" if unit in ("", "usd") else "no unit"
    if match is None or unit not in _UNITS:
        raise UsageError(f"{part!r} is no part of a budget.", mend=_FORM)
    kind, factor = _UNITS[unit]
    value = float(match["amount"].replace("_", "")) * factor
    if kind in ("tokens", "steps"):
        if value != int(value):
            raise UsageError(f"{part!r} is no whole number.", mend=_FORM)
        return kind, int(value)
    return kind, value
