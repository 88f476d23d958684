"""Units of measure: which one a number has, how large each is beside others, and spans of time in several. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from nbagent.agent.numerals import Numeral, quantities

MAX_SPANS = 40
"""Numbers with a unit of time that are read in a sentence."""
_TABLE: Final = (
    "s sec secs second seconds Sekunden=1|min mins minute minutes Minuten=60|h hr hrs hour hours Stunden=3600"
    "|d day days Tage Tagen=86400|w week weeks Wochen=604800|mo mos month months Monate Monaten=2629800"
    "|y yr yrs year years Jahre Jahren=31557600",
    "mm=1e-3|cm=1e-2|m meter meters metre metres=1|km kilometers kilometres=1e3|in inch inches=0.0254"
    "|ft foot feet=0.3048|yd yard yards=0.9144|mi mile miles=1609.344|nmi=1852",
    "mg=1e-6|g gram grams=1e-3|kg kilogram kilograms=1|t tonne tonnes=1e3|oz ounce ounces=0.028349523125"
    "|lb lbs pound pounds=0.45359237",
    "ml=1e-3|l liter liters litre litres=1|m³ m3=1e3|gal gallon gallons=3.785411784",
    "m/s=3.6|km/h=1|mph=1.609344|kn knot knots=1.852",
    "m² m2=1|ha hectare hectares=1e4|km² km2=1e6|acre acres=4046.8564224|ft²=0.09290304",
    "kJ=1|kWh=3600|kcal=4.184",
    "°C=1,0|°F=0.5555555555555556,-17.77777777777778|K=1,-273.15",
)
"""For each kind of quantity, the names of its units with their sizes; of degrees, also where they begin."""
_KINDS = [
    {tuple(names.split()): tuple(map(float, size.split(","))) for names, _, size in (x.partition("=") for x in row)}
    for row in (kind.split("|") for kind in _TABLE)
]
_KIND_OF = {name: kind for kind in _KINDS for names in kind for name in names}
_SIZE_OF = {name: size for kind in _KINDS for names, size in kind.items() for name in names}
_BEHIND = re.compile(r"[*_`]*[\s-]?(?!in\s+(?!of\b|per\b)\w)(°[CF]|[^\W\d_]{1,12}[²³23]?(?:/[sh]\b)?)(?!\w)")
"""A unit behind a number; `in` with another word behind it is none."""
_GLUED = re.compile(r"(?:°|(?<![^\W\d_]))[^\W\d_]{1,12}(?:/[sh])?$")
_TIME = re.compile(
    rf"(?<![\w.,])(\d[\d,]{{0,12}}(?:\.\d{{1,6}})?)[\s-]?({'|'.join(['m', *itertools.chain(*_KINDS[0])])})\b[*_`]*"
)
"""A number with a unit of time."""
_AND = re.compile(r",?\s?(?:and\s)?[*_`]*")
_FACTORS = {
    round(one[0] / other[0], 12) for kind in _KINDS for one, other in itertools.permutations(kind.values(), 2)
} | {273.15}


def unit_of(text: str, after: str) -> str:
    """The unit of a number, which ends its text or stands behind it; empty if it is none of those that are known."""
    glued, behind = _GLUED.search(text), _BEHIND.match(after)
    return next((x for x in (glued and glued[0], behind and behind[1]) if x in _SIZE_OF), "")


def converted(value: float, unit: str, *, tens: bool) -> Iterator[tuple[float, str]]:
    """What a number comes to in a unit if it is in another one of the same kind, and the formula of that.

    Args:
        value: The number.
        unit: The unit.
        tens: Whether it may be in a unit that is larger by a power of ten, as numbers of anything may be.
    """
    size, *begin = _SIZE_OF[unit]
    for names, (other, *other_begin) in _KIND_OF[unit].items():
        if begin and unit not in names:
            yield (value * other + other_begin[0] - begin[0]) / size, f"{{}} {names[0]} in {unit}"
        elif other != size and (tens or unit == "m³" or math.log10(other / size) % 1):
            form = f"{{}} × {other / size:,.6g}" if other > size else f"{{}} / {size / other:,.6g}"
            yield value * other / size, form
            yield value * float(f"{other / size:.6g}"), form  # as many digits as people know of it


def is_unit_of_years(unit: str) -> bool:
    """Whether a unit is that of years."""
    return _SIZE_OF.get(unit) == _SIZE_OF["years"]


def is_factor(number: Numeral) -> bool:
    """Whether a number of four digits or more, and no whole one, says how large one unit is in another: `1.60934`."""
    is_long = number.value != number.value.to_integral_value() and len(number.value.as_tuple().digits) > 3
    return is_long and any(abs(each - float(number.value)) <= float(number.step) / 2 for each in _FACTORS)


def spans(sentence: str) -> Iterator[tuple[set[str], Numeral, str]]:
    """The spans of time of several numbers, such as `2 h 43 min`: the numbers, and all in the last one's unit."""
    parts: list[re.Match[str]] = []
    for match in itertools.chain(itertools.islice(_TIME.finditer(sentence), MAX_SPANS), [None]):
        goes_on = match and parts and _seconds(parts[-1]) > _seconds(match)
        if match and (not parts or (goes_on and _AND.fullmatch(sentence, parts[-1].end(), match.start()))):
            parts.append(match)
            continue
        if len(parts) > 1:
            seconds = sum((Decimal(each[1].replace(",", "")) * _seconds(each) for each in parts), Decimal(0))
            step = Decimal(1).scaleb(-len(parts[-1][1].partition(".")[2]))
            texts = {text for each in parts for text in _told(each[0].rstrip("*_`"))}
            whole = " ".join(each[0].rstrip("*_`") for each in parts)
            yield texts, Numeral(whole, seconds / _seconds(parts[-1]), step), _name(parts[-1])
        parts = [match] if match else []


def _name(part: re.Match[str]) -> str:
    return "min" if part[2] == "m" else part[2]


def _seconds(part: re.Match[str]) -> int:
    return int(_SIZE_OF[_name(part)][0])


def _told(text: str) -> set[str]:
    """A number with a unit of time, as an answer's numbers are written: with the unit or without it."""
    return {text, *(each[0].text for each in quantities(text)), re.sub(r"[ -]{0,3}[a-z]{1,12}$", "", text)}
