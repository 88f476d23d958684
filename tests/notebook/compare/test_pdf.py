"""PDF files of two runs: their dates and names for themselves are no difference, what they draw is one."""

from __future__ import annotations

import base64
import zlib
from datetime import UTC, datetime
from typing import Any

import machine
import pytest
from notebook.compare.shared import MOMENTS, NOW, THEN, result

from nbagent.notebook.compare.cell import Comparison, compare
from nbagent.notebook.compare.pdf import PDF, unpacked
from nbagent.notebook.compare.texts import Context

LINE = b"1 0 0 RG 72 720 m 400.5 720 l S"


def file(drawing: bytes, date: str, *, name: str = "00", xmp: str = "", swapped: bool = False) -> bytes:
    """A PDF in which a drawing is packed; objects stand behind the date, too."""
    stream = zlib.compress(drawing)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Author (x) /CreationDate (D:%s) /ModDate (D:%s) >>" % (date.encode(), date.encode()),
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Metadata >>\nstream\n<xmp:CreateDate>%s</xmp:CreateDate>\nendstream" % xmp.encode(),
    ]
    made, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    if swapped:
        places[0], places[1] = places[1], places[0]
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size, at = len(objects) + 1, len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d" % (size, table, size)
    return made + b" /ID [<%s> <%s>] >>\nstartxref\n%d\n%%%%EOF\n" % (name.encode(), name.encode(), at)


def day(moment: float, form: str = "%Y%m%d%H%M%SZ") -> str:
    """A moment, as PDF files have it."""
    return datetime.fromtimestamp(moment, UTC).strftime(form)


def shown(made: bytes, mime: str = PDF) -> list[dict[str, Any]]:
    """A cell's output."""
    encoded = base64.encodebytes(made).decode()
    if mime == PDF:
        return [result() | {"data": {PDF: encoded}}]
    return [result(text_html=f'<embed src="data:{PDF};base64,{"".join(encoded.split())}">')]


def apart(*files: bytes, mime: str = PDF) -> Comparison:
    """What comes of the file of a notebook, of a fresh run, and of further ones."""
    stored, fresh, *again = (shown(each, mime) for each in files)
    return compare(stored, fresh, Context(moments=MOMENTS), again=again)


@pytest.mark.parametrize("mime", [PDF, "text/html"])
def test_two_runs_of_one_figure_are_the_same(mime: str) -> None:
    """By any date of theirs, in whatever time zone, and by the name of the file for itself."""
    found = apart(file(LINE, day(THEN)), file(LINE, day(NOW)), mime=mime)
    assert (found.differences, found.excused) == ([], {"date"})
    berlin = day(THEN + 3600, "%Y%m%d%H%M%S+01'00'")
    assert apart(file(LINE, berlin), file(LINE, day(NOW)), mime=mime).differences == []
    runs = [(THEN, "0a1b2c3d4e5f6071"), (NOW, "1a2b3c4d5e6f7081"), (NOW + 9, "8f7e6d5c4b3a2910")]
    made = [file(LINE, day(at), name=name, xmp=day(at, "%Y-%m-%dT%H:%M:%SZ")) for at, name in runs]
    assert apart(*made, mime=mime).differences == []


@pytest.mark.parametrize("mime", [PDF, "text/html"])
def test_what_a_reader_sees_of_a_file_is_compared(mime: str) -> None:
    """A drawing, a date of another day, which object is which, and what is behind a packed stream."""
    fresh = file(LINE, day(NOW))
    (found,) = apart(file(LINE.replace(b"400.5", b"420.5"), day(THEN)), fresh, mime=mime).differences
    if mime == PDF:
        assert (found.stored, found.fresh) == ("'420.5'", "'400.5'")
    year = 365 * 86_400
    others = (file(LINE, day(THEN - year)), file(LINE, day(THEN), swapped=True), file(LINE, day(THEN))[:-6] + b"more")
    for other in others:
        assert apart(other, fresh, mime=mime).differences
    assert apart(b"%PDF-1.4\nno more", b"%PDF-1.4\nno less", mime=mime).differences


def test_a_file_is_read_within_bounds() -> None:
    """One that unpacks to a thousand times its size, one that isn't whole, and what is none."""
    bomb = base64.b64encode(file(b"0 " * 30_000_000, day(NOW))).decode()
    assert len(machine.within(30, lambda: unpacked(bomb))) < 1_000_000
    endless = base64.b64encode(b"%PDF-1.4\n" + b"stream\n" * 1_000_000).decode()
    machine.within(30, lambda: unpacked(endless))
    for odd in ("", "5", "%PDF-", base64.b64encode(b"GIF").decode()):
        assert unpacked(odd) == odd
