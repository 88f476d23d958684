"""What the model may do, and what must not leave: approvals, questions, redaction, the ledger, cleaned outputs."""
