"""`%agent`: the assistant inside a notebook or IPython, as a face on a session that another process owns."""
