"""What all rooms share: events, errors, options, settings, limits, policy, the session's log, safe text and files."""
