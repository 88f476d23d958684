"""Which sessions there are, and what their folders say of them without their owners.

lookup              finds the folder of a session, and tells whether a process owns it
session_list        all of them, by their summaries
summary             title, state and cost of one
saved_spec          the sandbox that one gets when it is resumed
"""
