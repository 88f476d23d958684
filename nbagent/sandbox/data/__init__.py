"""What of a person's files a sandbox sees: a filtered mirror of them, kept up to date."""
