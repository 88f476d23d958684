"""`%agent`: the assistant inside a notebook or IPython, as a face on a session that another process owns.

magic        the magics, and how they come into IPython; `completion` is the Tab key's
request      what was typed, taken apart; `subcommands` are also those of `nbagent chat`
asking       one question on its way, in the event loop of `portal`
sessions     sessions by the names that a person gives them
variables    variables on their way; `plain` for plain data, `arrow_file` for what tables come in
block        what a question shows; `render` makes text, Markdown and HTML of it
controls     Stop, and answers to what is asked
notebook     what is taken from the person's notebook and put into it
"""
