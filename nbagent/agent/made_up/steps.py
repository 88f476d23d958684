"""What it takes to read code without its data: steps for what is made, kept and looked through. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbagent.agent.made_up.computing import MOST, size
from nbagent.agent.made_up.values import NOWHERE, Value, is_large, joined, looked_for, reading, told_apart, vague


class TooLongError(Exception):
    """Code takes too many steps to be read."""


class Steps:
    """Values, for which steps are taken.

    Attributes:
        left: The steps that may still be taken in a cell.
    """

    def begin_steps(self, steps: int) -> None:
        """Begin a cell, for which there are so many steps."""
        self.left, self._paid = steps, 0
        self._looked: set[Any] = set()

    def _sources(self, values: Iterable[Value]) -> frozenset[str]:
        """From where any of several values comes."""
        return NOWHERE.union(*(leaf.sources for leaf in self.leaves(values)))

    def leaves(self, values: Iterable[Value], *, read: bool = False) -> list[Value]:
        """The values in several ones that have no others in them; steps are taken as they are many and long.

        Args:
            values: The values.
            read: Whether all numbers in them will be looked for.
        """
        seen: set[int] = set()
        found: list[Value] = []
        for each in values:
            found += each.leaves(seen, pay=self.pay) if each.parts is not None else (each,)
        long = sum(len(one) for leaf in found for one in leaf.constants if isinstance(one, str | bytes))
        names = sum(len(leaf.sources) for leaf in found)
        self._spend(len(found) + len(seen) + names // 2 + long // 50)
        for leaf in found if read else ():
            for one in leaf.constants:
                self._look(one, leaf.sources)
        return found

    def _look(self, constant: Any, sources: frozenset[str] = NOWHERE) -> None:
        """Take the steps for looking for the numbers in a constant: once in a cell, and one for each further time."""
        self.pay(1)
        if (key := (type(constant), told_apart(constant), sources)) not in self._looked:
            self._looked.add(key)
            self._spend(looked_for(len(constant)) if isinstance(constant, str | bytes) else 0)
            self.pay(2 + reading(constant))

    def _count(self, counts: dict[Any, tuple[Value, int]], values: Iterable[Value], times: int = 1) -> None:
        """Count the constants of values, of which the numbers will be looked for."""
        for key, value in (each for leaf in self.leaves(values, read=True) for each in leaf.singly()):
            counts[key] = value, counts.get(key, (value, 0))[1] + times

    def joined(self, *values: Value, sources: frozenset[str] = NOWHERE) -> Value:
        """What is one of several values, or made of them in a way that isn't known."""
        return joined(*self.leaves(values), sources=sources)

    def vague(self, *values: Value) -> Value:
        """What is made of constants in a way that isn't known: any of them, or all of them together."""
        whole = vague(*self.leaves(values))
        self.pay(sum(len(each) for each in whole.constants[:3] if isinstance(each, str)) // 20)
        return whole

    def plain(self, value: Value) -> Any:
        """The one constant that a value is; raises a ValueError if it is none, or not known, or too large."""
        room = [MOST]
        try:
            return value.plain(room)
        finally:
            self._spend((MOST - room[0]) // 2)

    def key_of(self, value: Value) -> Any:
        """What a value is as a key, if it is no large number; raises what `plain` raises, or a TypeError."""
        key = self.plain(value)
        if is_large(key):
            raise ValueError("among others with the same hash it would take long to find")
        key = tuple(key) if isinstance(key, list) else key
        hash(key)
        return key

    def kept(self, constant: Any) -> Any:
        """A constant that was computed; steps are taken as it is long, so that what is kept grows no faster."""
        is_text = isinstance(constant, str | bytes)
        self._spend(0 if isinstance(constant, range) else len(constant) // 20 if is_text else size(constant) // 2)
        self.pay(0 if is_text or isinstance(constant, range) else size(constant))
        return constant

    def _spend(self, steps: int = 1) -> None:
        """Take steps; raises a TooLongError if none are left."""
        self.left -= steps
        if self.left < 0:
            raise TooLongError

    def pay(self, steps: int) -> None:
        """Take steps for what is made or kept, as these are many and long: in loops, only those of reading count."""
        self._paid += steps
        self._spend(steps)

    @property
    def _read(self) -> int:
        """The steps that are left, but for what was paid."""
        return self.left + self._paid
