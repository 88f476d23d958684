"""Records what ran in a session, and writes it as a notebook."""
