"""Sandboxes: the engines that make them, and what these share. Higher floors use `contract` and `registry` only."""
