"""A session at a terminal: events as text, questions to the person, their editor, a shell inside."""
