"""What runs inside of a sandbox beside the person's code. It imports the standard library and ipykernel only."""
