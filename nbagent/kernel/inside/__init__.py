"""Sources that are sent into a kernel and run there, never imported on the host."""
