"""Leases: which process controls a sandbox, and what on the host belongs to the sandbox."""
