"""The command line: options in, exit codes out."""
