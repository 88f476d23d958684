"""Files that go along with a question."""

from __future__ import annotations

from collections.abc import Iterable

from nbagent.kernel.transfer.outside import UploadSource
from nbagent.session.listing import Uploaded

Given = UploadSource | tuple[str, UploadSource]
"""A file that goes along with a question: as for `Session.upload`, with a name if it has none of its own."""


def told(uploads: Iterable[Uploaded]) -> str:
    """What the model is told of files that came with a question."""
    listed = ", ".join(f"{each.path} ({each.size:,} bytes)" for each in uploads)
    return f"\n\n[The person uploaded: {listed}]" if listed else ""
