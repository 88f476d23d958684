"""Counts the things that were removed from an output, for the note about them. Pure."""

from __future__ import annotations

import re

IN_LOG = "The log of the session has it whole."
"""Where what was removed from a session's output is found."""
KINDS = 8
"""The largest number of kinds of things that a note names."""
_HOST = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*+:)?//([^/?#]*)")
"""How an address begins that names a host; `urlsplit` takes a squared time for thousands of marks on a letter of it."""
_DATA_IMAGE = re.compile(r"data:image/(?:png|jpeg|jpg|gif|webp|bmp|avif)[;,][^<>\"'\\()]*", re.IGNORECASE)


class LeftOut:
    """Counts removed things by name; the note on them ends with `rest`, a sentence on where they can be found."""

    def __init__(self, rest: str = IN_LOG) -> None:
        self.rest = rest
        self._counts: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, what: str) -> None:
        """Count one more removed thing, a noun with its article, such as `a picture from example.org`."""
        if what in self._counts or len(self._counts) < KINDS:
            self._counts[what] = self._counts.get(what, 0) + 1
        else:
            self._counts["more"] = self._counts.get("more", 0) + 1

    def loads(self, what: str, address: str) -> None:
        """Count one more removed thing that would have been loaded from an address."""
        self.add(f"{what} from {host(address)}")

    def sentence(self) -> str:
        """The note, without brackets and line ends, so that it fits into text, HTML and Markdown alike."""
        named = (f"{what} ({count:,} times)" if count > 1 else what for what, count in self._counts.items())
        return f"Left out: {', '.join(named)}. {self.rest}"


def host(address: str) -> str:
    """The host in an address, reduced to letters, digits, dots and hyphens."""
    plain = re.sub(r"[\x00-\x20]|\\", lambda found: "/" if found[0] == "\\" else "", address)
    name = found[1].rpartition("@")[2] if (found := _HOST.match(plain)) else ""
    return re.sub(r"[^\w.:-]", "", name)[:80] or "the machine that shows it"


def is_data_image(address: str) -> bool:
    """Whether an address is a `data:` URL of a picture."""
    return _DATA_IMAGE.fullmatch(address.strip()) is not None
