"""Sandboxes on this machine: what all engines share that start one here."""
