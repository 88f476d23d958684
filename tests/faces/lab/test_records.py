"""Records as a page gets them."""

from __future__ import annotations

import msgspec

from nbagent.faces.lab.records import MAX_RECORD, MAX_TEXT, sent

LIBRARY = "File /opt/site/lib/python3.11/site-packages/library.py:7, in call()\n      5 a\n----> 7 b"
OWN = "Cell In[1], line 2\n      1 a\n----> 2 call()  # " + "x" * 190_000


def test_own_frames_of_many_errors_have_one_bound() -> None:
    """As many come apart as there is room for; the first, which a person looks at, is among them."""
    error = {"output_type": "error", "ename": "E", "evalue": "", "traceback": ["Traceback", OWN, LIBRARY, "E: last"]}
    event = {"type": "CellFinished", "cell": 1, "outputs": [error] * 50}
    record = msgspec.json.decode(sent(msgspec.json.encode({"seq": 1, "at": 0, "event": event}), whole="records/1"))
    assert list(record["own"]) == ["0"]
    assert sum(len(each) for each in record["own"]["0"]) <= MAX_TEXT
    assert len(msgspec.json.encode(record)) < MAX_RECORD
