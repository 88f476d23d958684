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
    if one.size != other.size:
        # As wide as its labels, which two of three runs may have by chance.
        return {"sizes": sizes, "shown": _side_by_side([one, other]), "within": bool(others) and _is_near(*sizes)}
    left, right = (np.asarray(each, dtype=np.int16) for each in (one, other))
    apart = np.abs(left - right).max(axis=2)
    blurred = [np.asarray(each.filter(ImageFilter.BoxBlur(1)), dtype=np.int16) for each in (one, other)]
    strong = np.abs(blurred[0] - blurred[1]).max(axis=2) > STRONG
    found = {
        "sizes": sizes,
        "different": int((apart > 0).sum()),
        "strong": int(strong.sum()),
        "largest": int(apart.max(initial=0)),
        "within": bool(others) and _is_within(one, other, others),
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
    """Whether a picture differs from another only where that one differs from the others, or close to it."""
    import numpy as np
    from PIL import ImageChops

    if any(each.size != fresh.size for each in again):
        return all(_is_near(list(each.size), list(fresh.size)) for each in again)
    found, *others = (np.asarray(ImageChops.difference(fresh, each)).any(axis=2) for each in (stored, *again))
    outside, room = np.array(found), max(8, max(fresh.size) // 25)
    for top, end, left, right in _frames_of(np.logical_or.reduce(others)):
        # Within a second only the last digit of a line of text changes, within a day all of it.
        wide = max(room, TEXT * (end - top)) if end - top <= room else room
        outside[max(0, top - room) : end + room, max(0, left - wide) : right + wide] = False
    return not outside.any()


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
