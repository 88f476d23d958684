"""Packages for a sandbox that has no network: the host resolves, fetches and checks them.

installer     `Installer`: from a request to importable packages
requirements  reads requests
import_names  the distribution that has a module
allowance     how much code may ask the package index for
resolver      from a request to wheels, with hashes
download      fetches and unpacks exactly these
uv            runs uv; `pip_settings` tells it what pip is told
unpacked      checks what was unpacked, and moves it in
pinned        fills a kernel's own environment; `wheel_list` says which wheels that has
"""
