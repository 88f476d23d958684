"""Runs a cell, whatever the engine."""
