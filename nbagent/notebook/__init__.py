"""Records what ran in a session, writes it as a notebook, and verifies notebooks.

record    a session's events, folded into what its notebook shows
build     makes a notebook of that; `nodes`, `shown`, `prose` and `uploads` make its parts
lock      what a result may depend on: packages, data, seeds, machine; `pins` writes it for pip and conda,
          `lock_check` holds a run against it
export    writes it: as a notebook, or by `formats`, `page` and `bundle`; `place` says where it may go
fold      leaves out attempts that failed
document  reads any notebook
inputs    finds the data that it is to run on; `data_changes` says whether that changed meanwhile
run       runs the cells of a file in a session
fresh     runs a notebook's cells in sandboxes of their own; `sweep` on other terms
verify    runs a notebook again and compares; `proof` has the values, `report` tells them
compare_runs  which cells show the same as in fresh runs
compare/  what differs between two runs, and why
rerun     the same analysis with other data or parameters
provenance  who asked what, and what ran for it
"""
