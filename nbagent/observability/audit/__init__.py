"""The audit log: what ran, who approved it, on what data, and how it ended, in a form in which changes are noticed.

    SESSIONS/ID/audit.jsonl      one JSON object a line, each chained to the one before by a hash
    STATE/audit-heads/ID         the number of lines and the hash of the last one

`entries.py` says what is written, as a pure function of the session's events; `chain.py` writes it; `verification.py`
checks it and names the first line that was changed.

It proves what the controller saw: which code it sent to the kernel, who approved it, what came back and when. It
doesn't prove what code in the kernel did to the kernel: a cell shares its process with all other cells, so it can
change their variables, answer in the kernel's name, and send output in another cell's name. Output that came for a cell
after its end is logged as such (`late_output`), with the cell that was running.

How much it proves depends on what an attacker can write:

- *The session's folder only.* Any change is noticed: a changed byte, a line that was removed, inserted or moved (by the
  chain), a cut end or a whole rewrite (by the head). A change of the event log is noticed as far as the audit log
  repeats it.
- *All of this person's folders, where no key is used.* A whole rewrite with a new head is not noticed: anybody can
  compute SHA-256. Code in a sandbox can't write there; another program of the same person can.
- *All of this person's folders, but not the key* (`audit_key_file`, which nbagent reads when a session starts). Each
  hash and the head are HMACs. Nothing can be changed or added, but log and head together can be reset to an earlier
  state, or deleted. Against that, copy the heads away (400 bytes each) and compare.
- *The process of nbagent itself, while it runs.* It proves nothing: that process writes the log. Since it has read the
  key, earlier lines hold only against heads that were copied away before.
"""

from nbagent.observability.audit.chain import Audit, read_key
from nbagent.observability.audit.verification import AuditCheck, verify

__all__ = ["Audit", "AuditCheck", "read_key", "verify"]
