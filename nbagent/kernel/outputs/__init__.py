"""Messages in, nbformat outputs out. Pure."""
