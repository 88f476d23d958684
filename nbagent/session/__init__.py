"""A session: one question in, a stream of events out, a notebook at the end.

session             `Session`, which this process owns
attach              `Attached`, a session that another process owns; `owner_connection` is its way there
protocol            `AnySession`: the calls that both have, each described once
plan                the options of a session, checked before anything starts; `checks` checks what a person gives
startup             starts a new session, or resumes one; `Plan.resumed` says what may change then
parts               what a started session consists of, from its logs to its agent
conversation        one question at a time
session_kernel      one cell at a time, with its files
files               uploads, downloads, results; `sandbox_files` has the values
kept_files          files and `given_variables` that come back when a sandbox is replaced
exports, undo       the notebook; what a question did, taken back
server, wire        serves other processes; what goes over the socket
host_process        a process that owns a session without a face
manager             `SessionManager`: lists, renames, searches, deletes; `session_list` and `lookup` find sessions
summary             title, state and cost of a session
saved_spec, stream  the sandbox's spec in the session's folder; events as they happen
"""
