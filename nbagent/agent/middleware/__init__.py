"""What surrounds a call of the model, one middleware a file."""
