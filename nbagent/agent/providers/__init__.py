"""Models and their providers: how a model is chosen, opened, watched, priced and recorded."""
