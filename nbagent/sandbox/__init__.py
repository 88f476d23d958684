"""One engine a file, and what they share; the floors above see `contract` and find engines by `registry`."""
