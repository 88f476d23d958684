"""Compares two pictures, pixel by pixel. It is sent into a sandbox as source: pictures are code's, and so hostile."""

from __future__ import annotations

import base64
import io
from typing import Any

STRONG = 32
"""Of 255: the difference of a blurred pixel that an eye sees."""
TEXT = 13
"""The width of a date with a time, in heights of its digits."""
MOST_FRAMES = 100
GAP = 0.25
"""Of a picture's height, without a difference: what is above shows something else than what is below."""
ORIENTATION = 274
"""The number of that tag in EXIF."""
STRANGE = 0.02
"""The share of the pixels that differ which may have another colour, as where a digit crosses a line."""
WIDEST = 700
"""Pixels of each of the three parts of the picture that shows a difference."""


def main(stored: str, fresh: str, *again: str) -> dict[str, Any]:
    """Compare two pictures in base64.

    Args:
        stored: One.
        fresh: The other.
        again: More of the second's kind, such as those of further runs.

    Returns:
        `sizes`, `different` (pixels), `strong` (pixels that differ visibly), `largest` (of 255), `within`
        (whether the first two differ only where the second and the others do, or close to it), and `shown`: a PNG
        in base64 of the first two and, in red, where they differ. Of moving pictures, that of the first frame that
        differs. Or `unlike`: `drawn`, where the first two move, turn or colour their pixels otherwise; `frames`, where
        they have more than are compared.
    """
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = 50_000_000
    given = [base64.b64decode(each) for each in (stored, fresh, *again)]
    opened = [Image.open(io.BytesIO(each)) for each in given]
    if _drawn(opened[0], given[0]) != _drawn(opened[1], given[1]):
        return _unlike("drawn", opened)
    frames, found = _frames(opened[0]), dict[str, Any]()
    for frame in range(min(frames, MOST_FRAMES)):
        for each in opened:
            each.seek(min(frame, _frames(each) - 1))
        found = _on_grounds([_eight_bits(each) for each in opened])
        if found.get("different", 1):
            return found
        if frames > 1 and opened[0].info.get("duration") != opened[1].info.get("duration"):
            return _unlike("drawn", opened)
    return _unlike("frames", opened) if frames > MOST_FRAMES and given[0] != given[1] else found


def _unlike(why: str, pictures: list[Any]) -> dict[str, Any]:
    return {"sizes": [list(each.size) for each in pictures[:2]], "unlike": why}


def _frames(picture: Any) -> int:
    return int(getattr(picture, "n_frames", 1))


def _drawn(picture: Any, data: bytes) -> Any:
    """What of a file decides how browsers draw its pixels, and which of them."""
    names = ("icc_profile", "gamma", "chromaticity", "srgb", "loop", "default_image")
    told = [picture.info.get(name) for name in names]
    return _frames(picture), told, b"cICP" in data, picture.getexif().get(ORIENTATION)


def _eight_bits(picture: Any) -> Any:
    """A picture in colours of 8 bits; of greys with 16 the upper ones, as browsers draw them: Pillow clips them."""
    import numpy as np
    from PIL import Image

    if picture.mode.startswith("I"):
        picture = Image.fromarray((np.asarray(picture).clip(0, 2**16 - 1) // 256).astype(np.uint8))
    return picture.convert("RGBA")


def _on_grounds(pictures: list[Any]) -> dict[str, Any]:
    """What differs on white or on black, whichever shows more: each hides what has its colour, and some have either."""
    clear = any(each.getextrema()[3][0] < 255 for each in pictures)
    grounds = ("white", "black") if clear else ("white",)
    found = [_compared(*(_on(ground, each) for each in pictures)) for ground in grounds]
    most = max(found, key=lambda each: each.get("different", 0))
    return {**most, "within": all(each["within"] for each in found)}


def _compared(one: Any, other: Any, *others: Any) -> dict[str, Any]:
    import numpy as np
    from PIL import Image, ImageFilter

    sizes = [list(one.size), list(other.size)]
    within = bool(others) and _is_within(one, other, others)
    if one.size != other.size:
        return {"sizes": sizes, "shown": _side_by_side([one, other]), "within": within}
    left, right = (np.asarray(each, dtype=np.int16) for each in (one, other))
    apart = np.abs(left - right).max(axis=2)
    blurred = [np.asarray(each.filter(ImageFilter.BoxBlur(1)), dtype=np.int16) for each in (one, other)]
    strong = np.abs(blurred[0] - blurred[1]).max(axis=2) > STRONG
    found = {
        "sizes": sizes,
        "different": int((apart > 0).sum()),
        "strong": int(strong.sum()),
        "largest": int(apart.max(initial=0)),
        "within": within,
    }
    if found["different"]:
        marked = np.asarray(other.convert("L").convert("RGB"), dtype=np.uint8) // 2 + 127
        marked[apart > 0] = (255, 0, 0)
        found["shown"] = _side_by_side([one, other, Image.fromarray(marked)])
    return found


def _is_near(one: list[int], other: list[int]) -> bool:
    """Whether two sizes differ by no more than a label of an axis may be longer."""
    return all(abs(left - right) <= 0.1 * right for left, right in zip(one, other, strict=True))


def _is_within(stored: Any, fresh: Any, again: tuple[Any, ...]) -> bool:
    """Whether a picture differs from another only where that one differs from the others, or close to it.

    What is around a longer label is as much farther away as it makes the whole larger.
    """
    import numpy as np

    pictures = [stored, fresh, *again]
    if not all(_is_near(list(each.size), list(fresh.size)) for each in pictures):
        return False
    left, right, *more = _aligned(pictures)
    found, *others = (
        _apart(right, each, exact=picture.size == fresh.size)
        for each, picture in zip((left, *more), (stored, *again), strict=True)
    )
    changing = np.logical_or.reduce(others)
    outside, room, low = np.array(found), max(8, max(fresh.size) // 25), max(8, max(fresh.size) // 60)
    more_wide, more_high = (abs(one - two) for one, two in zip(stored.size, fresh.size, strict=True))
    for top, end, first, last in _frames_of(changing):
        # Within a second only the last digit of a line of text changes, within a day all of it, and no other line.
        wide, high = (max(room, TEXT * (end - top)), low) if end - top <= room else (room, room)
        wide, high = wide + more_wide, high + more_high
        outside[max(0, top - high) : end + high, max(0, first - wide) : last + wide] = False
    return not outside.any() and _has_colours(left[found], right[found], [each[changing] for each in (right, *more)])


def _aligned(pictures: list[Any]) -> list[Any]:
    """Pictures of nearly one size laid upon the second: what is around a longer label moves all that it frames."""
    import numpy as np

    arrays = [np.asarray(each) for each in pictures]
    placed = [list[tuple[int, int]]() for _ in arrays]
    for axis in (0, 1):
        lines = [each.mean(axis=(1 - axis, 2)) for each in arrays]
        longest = max(map(len, lines))
        room = longest - min(map(len, lines))
        ground = np.pad(lines[1], (room, longest - len(lines[1])), mode="edge")
        for pads, line in zip(placed, lines, strict=True):
            moves = range(len(ground) - len(line) + 1) if len(line) != len(lines[1]) else [room]
            tried = [(move, len(ground) - len(line) - move) for move in moves]
            pads.append(min(tried, key=lambda each: float(np.abs(np.pad(line, each, mode="edge") - ground).sum())))
    return [np.pad(each, (*pads, (0, 0)), mode="edge") for each, pads in zip(arrays, placed, strict=True)]


def _apart(one: Any, other: Any, *, exact: bool) -> Any:
    """The pixels in which two pictures differ; if not exact, not by what half a pixel's move does to an edge."""
    import numpy as np

    if exact:
        return _in_a_colour(one != other)

    def nearby(pixels: Any, choose: Any) -> Any:
        around = np.pad(pixels, ((1, 1), (1, 1), (0, 0)), mode="edge")
        rows = choose(choose(around[:-2], around[1:-1]), around[2:])
        return choose(choose(rows[:, :-2], rows[:, 1:-1]), rows[:, 2:])

    found = np.zeros(one.shape[:2], dtype=bool)
    for left, right in ((one, other), (other, one)):
        # Of 8 bits, as the pixels are: more would take twice the memory, and the time of that.
        found |= _in_a_colour(left < np.maximum(nearby(right, np.minimum), STRONG) - STRONG)
        found |= _in_a_colour(left > np.minimum(nearby(right, np.maximum), 255 - STRONG) + STRONG)
    return found


def _in_a_colour(apart: Any) -> Any:
    """Where pixels differ in one of their three colours; NumPy's `any` along so few takes four times as long."""
    return apart[..., 0] | apart[..., 1] | apart[..., 2]


def _has_colours(stored: Any, fresh: Any, changing: list[Any]) -> bool:
    """Whether nothing but what changes with every run was drawn or is missing, by its colours: text is in one.

    It says so too where each run has colours of its own, as a map of durations has.
    """
    import numpy as np

    def known(pixels: Any) -> Any:
        there = np.zeros((18, 18, 18), dtype=bool)
        place = pixels // 16 + 1
        for x, y, z in np.ndindex(3, 3, 3):
            there[place[:, 0] + x - 1, place[:, 1] + y - 1, place[:, 2] + z - 1] = True
        return there

    def strange(pixels: Any, there: Any) -> int:
        place = pixels // 16 + 1
        return int((~there[place[:, 0], place[:, 1], place[:, 2]]).sum())

    for number, each in enumerate(changing):
        rest = np.concatenate([*changing[:number], *changing[number + 1 :]])
        if strange(each, known(rest)) > STRANGE * len(each):
            return True
    there = known(np.concatenate(changing))
    return all(strange(each, there) <= STRANGE * len(each) for each in (stored, fresh))


def _frames_of(apart: Any) -> list[tuple[int, int, int, int]]:
    """The frames of what differs, from above: a date over a figure and a duration below it don't frame the figure."""
    import numpy as np

    rows = np.flatnonzero(apart.any(axis=1))
    found = []
    for each in np.split(rows, np.flatnonzero(np.diff(rows) > GAP * len(apart)) + 1):
        if len(each):
            columns = np.flatnonzero(apart[each[0] : each[-1] + 1].any(axis=0))
            found.append((int(each[0]), int(each[-1]) + 1, int(columns[0]), int(columns[-1]) + 1))
    return found


def _on(ground: str, picture: Any) -> Any:
    from PIL import Image

    return Image.alpha_composite(Image.new("RGBA", picture.size, ground), picture).convert("RGB")


def _side_by_side(pictures: list[Any]) -> str:
    from PIL import Image

    small = [each.convert("RGB") for each in pictures]
    for each in small:
        each.thumbnail((WIDEST, WIDEST))
    whole = Image.new(
        "RGB", (sum(each.width for each in small) + 8 * len(small), max(each.height for each in small)), "white"
    )
    place = 0
    for each in small:
        whole.paste(each, (place, 0))
        place += each.width + 8
    written = io.BytesIO()
    whole.save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode()
