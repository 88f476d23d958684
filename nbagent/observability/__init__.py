"""What a session records for those who run it: the audit log with its proof, and logs, traces and metrics."""
