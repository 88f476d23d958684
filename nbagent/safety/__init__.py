"""What is permitted and what must not leave: approvals, budgets, redaction, the ledger, cleaned outputs."""
