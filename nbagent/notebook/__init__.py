"""Remembers what ran, and writes it down."""
