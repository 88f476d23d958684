"""What all floors share: errors, events, options, settings, policy, the session's folder, and safe text and files."""
