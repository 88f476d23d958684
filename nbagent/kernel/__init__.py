"""Runs a cell, whatever the engine. Start reading at `kernel.py`, then `runner.py`."""
