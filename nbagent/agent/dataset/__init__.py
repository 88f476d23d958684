"""The data as the model is told of it: what of the profiles it sees, and where."""
