"""One session, many processes: its owner serves it at a socket in its folder, to processes of the same person.

server              the owner's side
attach              `Attached`, a session that another process owns; `owner_connection` is its way there
wire                what goes over the socket: the table of calls, their arguments and results
"""
