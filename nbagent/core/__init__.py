"""What all rooms share.

events/          what happened, as facts
session_log      the log of a session, which every event is written to first
options          every option of a session, declared once
settings         which options hold: given ones, the environment, the settings file
policy           trust levels, and what may be installed
limits           the limits of a sandbox: memory, cores, seconds
budget, quota    what a question may use; what a session may keep on disk
errors           what can go wrong
folders, fileio  where things are kept; files written whole or not at all
text, markdown   text of others, made safe and cut
syntax           Python of others, read within bounds
concurrency      work in threads, and work that must not be cut short
compat           private names of dependencies
"""
