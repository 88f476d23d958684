"""Scores any model on task files in the form of InfiAgent-DABench; see README.md. Not part of the package."""
