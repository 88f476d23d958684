"""What the model may do, and what must not leave.

approvals   `Consent`: whether something may be done, by the policy or by a person's answer
actions     what the model wants to do, as a value; `programs` finds what a cell starts
questions   what a person is asked, as a value that any face shows
wait_timer  the time of waiting for an answer, which counts against no limit
redaction   hides secrets in text; `columns` finds columns of them
ledger      what was sent to models
sanitize/   cleans outputs, so that opening a notebook loads nothing
"""
