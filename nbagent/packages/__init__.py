"""What may come in: which distribution a module is, by which wheels, by policy, from the host."""
