"""Packages for a sandbox without a network: which distribution a module is, what policy permits, and the installer."""
