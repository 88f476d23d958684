"""Compares what a cell shows with what it showed before, and finds the cause of each difference. Pure but for pictures.

cell.py       a cell's outputs: pairs them by kind
forms.py      representations of an output as text: HTML, JSON
pdf.py        that of a PDF
texts.py      two texts: what differs, where, and why
narrow.py     of long texts, the parts in which they differ
tokens.py     text as numbers, dates, words; which of two texts' differ
masks.py      what is masked in any text: the built-in shapes, and a person's rules as nbval has them
layout.py     where words stand, in which colours, and what lists are in another order
volatile.py   why a difference is no change: durations, processes, what differs with every run
neighbours.py ids: whether one is of a kind with those of other runs, and what belongs to it
dates.py      whether it is the moment of each run
reads.py      what the code of a cell reads beside its data
streams.py    printed text that other outputs cut into parts
notes.py      what nbagent itself says among outputs
tables.py     where in a table a difference is
widgets.py    the state of widgets, without the names that differ with every run
pictures.py   pixels, decoded in a sandbox
"""
