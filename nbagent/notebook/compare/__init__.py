"""Compares what a cell shows with what it showed before, and finds the cause of each difference. Pure but for pictures.

outputs.py    a cell's outputs: pairs them by kind
tokens.py     text as numbers, dates, words; what of two texts differs
sanitize.py   what is masked in any text: the built-in shapes, and a person's rules as nbval has them
volatile.py   why a difference is no change: the clock, ids, what differs with every run
tables.py     where in a table a difference is
pictures.py   pixels, decoded in a sandbox
"""
