"""Limits that Linux enforces: system call filters and control groups."""
