"""Models and their providers: how one is chosen, opened, watched, priced, recorded."""
