"""Kernels kept warm."""
