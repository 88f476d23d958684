"""What a session records for those who run it. Both rooms read the session's events, and know nothing of each other.

audit/      the audit log: what ran and who approved it, with a proof that nobody changed it
telemetry/  logs, traces and metrics
"""
