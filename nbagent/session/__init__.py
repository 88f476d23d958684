"""One question in, a stream of events out, a notebook at the end. Start reading at `session.py`."""
