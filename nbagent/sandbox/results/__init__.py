"""Where what a sandbox's code saves lands on the host."""
