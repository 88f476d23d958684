"""The person's files that a sandbox sees: a filtered mirror, which is kept up to date."""
