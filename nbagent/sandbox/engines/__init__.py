"""The engines `docker`, `bubblewrap`, `local`, and `existing` for kernels that run already; and what only one uses."""
