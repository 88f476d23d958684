"""What is permitted and what must not leave: consent, approvals' rules, redaction, budgets, the ledger."""
