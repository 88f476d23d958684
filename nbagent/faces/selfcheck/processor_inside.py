"""Attacks on the limits of processes, threads and cores: fork bombs, and computing without end."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from typing import Any

from nbagent.faces.selfcheck.probe import EVERYWHERE, NO_PROGRAMS, ProbeGroup

GROUP = ProbeGroup("processes and cores")
_attack = GROUP.attack
_WITH_PROGRAMS = EVERYWHERE - NO_PROGRAMS


@_attack(
    "17",
    "Start more processes than the limit",
    expected="refused at the limit",
    control="pids",
    levels=_WITH_PROGRAMS,
)
def start_processes(host: Any) -> object:
    # Each child waits for the end of a pipe that only this process holds, so none outlives it.
    reader, writer = os.pipe()
    children: list[int] = []
    try:
        while len(children) < host["pids"] + 16:
            child = os.fork()
            if not child:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            children.append(child)
    except BlockingIOError:
        raise OSError(f"refused after {len(children)} processes") from None
    finally:
        os.close(writer)
        os.close(reader)
        for child in children:
            os.waitpid(child, 0)
    return f"{len(children)} processes, the limit is {host['pids']}"


@_attack("17", "Start more threads than the limit on processes", expected="refused at the limit", control="pids")
def start_threads(host: Any) -> object:
    end = threading.Event()
    threads: list[threading.Thread] = []
    try:
        while len(threads) < host["pids"] + 16:
            thread = threading.Thread(target=end.wait, args=(10,))
            thread.start()
            threads.append(thread)
    except RuntimeError:
        raise OSError(f"refused after {len(threads)} threads") from None
    finally:
        end.set()
        for thread in threads:
            thread.join()
    return f"{len(threads)} threads, the limit is {host['pids']}"


@_attack(
    "18",
    "Compute on more cores than the limit, by threads that don't hold Python's lock",
    expected="no more than the limit's share of time",
    control="cpu",
    held_anyway="a machine that is busy otherwise gives nobody more",
)
def take_cores(host: Any) -> object:
    block = bytes(1 << 18)

    def spin(end: float) -> None:
        while time.monotonic() < end:
            hashlib.sha256(block)

    def measure() -> float:
        started, computed = time.monotonic(), time.process_time()
        threads = [threading.Thread(target=spin, args=(started + 0.5,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.process_time() - computed) / (time.monotonic() - started)

    # Linux applies the limit in periods of a tenth of a second.
    cores = max(measure(), measure())
    if cores <= host["cpus"] + 0.25:
        raise OSError(f"{cores:.2f} cores, the limit is {host['cpus']}")
    return f"{cores:.2f} cores, the limit is {host['cpus']}"
