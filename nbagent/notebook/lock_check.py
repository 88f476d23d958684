"""What of a notebook's lock doesn't hold: before its cells run, and in a fresh run of them. Pure."""

from __future__ import annotations

from nbagent.core.events import Output
from nbagent.notebook.document import Document
from nbagent.notebook.fresh import Ran, is_machinery, words
from nbagent.notebook.lock import Lock
from nbagent.packages.requirements import script_requirements


def problems(document: Document) -> list[str]:
    """What of a notebook's lock isn't as nbagent wrote it."""
    lock = document.lock
    if lock is None:
        return ["The notebook's lock was removed since nbagent wrote it."] if document.is_ours else []
    found = [] if lock.is_intact else ["The lock in the notebook's metadata was edited since nbagent wrote it."]
    found += [f"While its cells ran, {each.changed}" for each in lock.data if each.changed]
    versions = lock.versions
    for cell in document.cells:
        for each in script_requirements(cell.code + "\n") if cell.is_block else ():
            locked = versions.get(each.name.lower().replace("_", "-").replace(".", "-"))
            if locked is None or not each.specifier.contains(locked, prereleases=True):
                found.append(f"The script block asks for {each}, the lock has {locked or 'no such package'}.")
    return found


def package_problems(lock: Lock | None, fresh: Ran) -> list[str]:
    """Packages that ran in another version than the lock has, since they could not be replaced."""
    locked = lock.versions if lock else {}
    return [
        f"The package {name} ran as {fresh.versions.get(name, 'nothing')}, the lock has {version}."
        for name, version in locked.items()
        if fresh.versions.get(name) != version and not is_machinery(name)
    ]


def notes(document: Document, fresh: Ran) -> list[str]:
    """What is different here from where the notebook was made, and what is not compared."""
    found, skipped = [], [each.name for each in document.skipped]
    if skipped:
        found.append(f"Tagged to be skipped, and not verified: {', '.join(skipped)}.")
    if installs := [each.name for each in document.cells if each.installs and each.outputs]:
        found.append(f"What is printed while packages are installed isn't compared: {', '.join(installs)}.")
    if not is_same_environment(document.lock, fresh):
        failed = [each.name for each in document.cells if any(map(_is_error, each.outputs))]
        found += [f"Where an error came from isn't compared: {', '.join(failed)}."] if failed else []
    if document.has_other_views:
        found.append("What widgets show whose state isn't there is not compared.")
    lock = document.lock
    if lock is None:
        return [*found, "It has no lock: its packages are those of this kernel, and what its code imports."]
    for name, told in (("platform", "platform"), ("threads", "number of threads"), ("locale", "locale")):
        if (there := lock.machine.get(name)) != (here := fresh.machine.get(name)):
            found.append(f"Its {told} was {there}, here it is {here}.")
    theirs, ours = (set(words(each.get("cpu_features"))) for each in (lock.machine, fresh.machine))
    if theirs != ours:
        told = ", ".join(sorted(theirs ^ ours)[:6])
        found.append(f"The processor has other vector instructions here ({told}): numbers may differ in last digits.")
    if lock.python != "" and lock.environment != fresh.environment:
        found.append("The kernel's environment is another one; the lock's packages were installed into it.")
    return found


def is_same_environment(lock: Lock | None, fresh: Ran) -> bool:
    """Whether the same programs ran, with the same fonts: figures have to be the same in each pixel."""
    return lock is not None and lock.environment == fresh.environment


def _is_error(output: Output) -> bool:
    return bool(output["output_type"] == "error")
