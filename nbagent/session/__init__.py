"""A session: one question in, a stream of events out, a notebook at the end.

session             `Session`, which this process owns
protocol            `AnySession`: the calls that it and `sharing.attach.Attached` have, each described once
manager             `SessionManager`: lists, renames, searches, deletes
host_process        a process that owns a session without a face
plan                the options of a session, checked before anything starts; `checks` checks what a person gives
startup             starts a new session, or resumes one; `Plan.resumed` says what may change then
parts               what a started session consists of, from its logs to its agent
conversation        one question at a time
session_kernel      one cell at a time, with its files
exports, undo       the notebook; what a question did, taken back
stream              events as they happen
sharing/            serves other processes: the socket, both sides
catalog/            which sessions there are; title, state and cost of each
files/              uploads, downloads, results
"""
