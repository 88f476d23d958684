"""Finds numbers that code has made up: cells are read as Python would run them without their data. Nothing is run.

literals      `Literals`: what each cell can show without data, which proves nothing
written       which numbers of an output are there for that alone
interpreter   statements; `expressions`, `calls` and `containers` what they are made of; `scopes` names
vocabulary    what calls of others do, by their names
steps         what all of this may take
values        what an expression may be without data, and from where it comes
computing     what Python makes of constants, within bounds
"""
