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
        (whether the first two differ only within the frame in which the second and the others do), and `shown`: a PNG
        in base64 of the first two and, in red, where they differ. Of moving pictures, that of the first frame that
        differs. Or `unlike`: the first two move, turn or colour their pixels otherwise.
    """
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = 50_000_000
    given = [base64.b64decode(each) for each in (stored, fresh, *again)]
    opened = [Image.open(io.BytesIO(each)) for each in given]
    if _drawn(opened[0], given[0]) != _drawn(opened[1], given[1]):
        return {"sizes": [list(each.size) for each in opened[:2]], "unlike": True}
    found: dict[str, Any] = {}
    for frame in range(min(_frames(opened[0]), MOST_FRAMES)):
        for each in opened:
            each.seek(min(frame, _frames(each) - 1))
        found = _compared(*(_on_white(each.convert("RGBA")) for each in opened))
        if found.get("different", 1):
            break
    return found


def _frames(picture: Any) -> int:
    return int(getattr(picture, "n_frames", 1))


def _drawn(picture: Any, data: bytes) -> Any:
    """What of a file decides how browsers draw its pixels, and which of them."""
    colours = [picture.info.get(name) for name in ("icc_profile", "gamma", "chromaticity", "srgb")]
    return _frames(picture), colours, b"cICP" in data, picture.getexif().get(ORIENTATION)


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
    from PIL import ImageChops

    if any(each.size != fresh.size for each in again):
        return True
    found, *frames = (ImageChops.difference(fresh, each).getbbox() for each in (stored, *again))
    frames = [each for each in frames if each is not None]
    if found is None or not frames:
        return found is None
    frame = [pick(ends) for pick, ends in zip((min, min, max, max), zip(*frames, strict=True), strict=True)]
    room, height = max(8, max(fresh.size) // 25), frame[3] - frame[1]
    # Within a second only the last digit of a line of text changes, within a day all of it.
    wide = max(room, TEXT * height) if height <= room else room
    return all(found[n] >= frame[n] - (wide, room)[n] for n in (0, 1)) and all(
        found[n] <= frame[n] + (wide, room)[n - 2] for n in (2, 3)
    )


def _on_white(picture: Any) -> Any:
    from PIL import Image

    ground = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(ground, picture).convert("RGB")


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
