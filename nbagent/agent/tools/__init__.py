"""The tools of the model, and the cells in which they do their work."""
