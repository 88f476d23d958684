"""What the model is told of the data: which parts of the profiles of files, and where in its prompt."""
