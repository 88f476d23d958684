"""The audit log: what ran, who let it, on what, and how it ended, in a form that shows where somebody changed it.

    SESSIONS/ID/audit.jsonl      one JSON object a line, each chained to the one before
    STATE/audit-heads/ID         how many lines there are and what the last one hashes to

`entries.py` says what is written, as a pure function of the session's events; `chain.py` writes it; `verify.py` reads
it back and says where it is not what was written.

What it proves is what the controller saw: which code it sent to the kernel, who let it, what came back and when. It
doesn't prove what code in the kernel did to the kernel: a cell shares its process with those before and after it, so it
can change their variables, answer in the kernel's name, and send output that says it is another cell's. What came for a
cell after its end is told as that (`late_output`), with the cell that really ran.

How much it proves depends on what an attacker can write:

- *The session's folder only.* Any change is noticed: a byte, a line that was taken out, put in or moved, the end cut
  off, all of it written anew. The chain shows the first four, the head the rest. Where the event log was changed and
  the audit log was not, that is noticed too, for all that the audit log repeats of it.
- *All of this person's folders, no key.* Then a whole rewrite with a new head is not noticed: the hashes are plain
  SHA-256, which anybody can compute. Code in a sandbox is never in that place; another program of the same person is.
- *All of this person's folders, but not the key* (`audit_key_file`, which nbagent reads when a session starts). Each
  hash and the head are HMACs. Nothing can be changed or added, but file and head together can be put back to what they
  were at an earlier moment, or be deleted. Against that, copy the heads away (400 bytes each), and compare.
- *The process of nbagent itself, while it runs.* Nothing: whoever writes the log can write lies. And since it
  must read the key, what was written before holds only against heads that were copied away by then.
"""

from nbagent.audit.chain import Audit, read_key
from nbagent.audit.verify import Verdict, verify

__all__ = ["Audit", "Verdict", "read_key", "verify"]
