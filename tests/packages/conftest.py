"""An index of packages, and a site folder to install into."""

from packages.index import index, make, own_uv, site  # noqa: F401 - fixtures
