"""What may go out: a proxy on the host for a sandbox that has no route."""
