"""State, artifacts and events that outlive a session, and conversations that go on after a restart.

    manager     `StateManager`: states, artifacts and events in one
    scopes      who shares a state, how long it lives, and how it is kept
    artifacts   large content, as files named by their hash
    bus         events between agents, sessions and processes
    views       read-only states, artifacts and events of sessions and of the library of tools
    checkpoints the two threads of a conversation in LangGraph's checkpointer
    backends    opens what a URL names: checkpointer, store and event log (sqlite, postgres, redis)
    guarded     plain data only and sentences for errors, in all checkpointers and stores
    bell        wakes tasks that wait for a file to change

LangGraph is imported when a back end is opened, not before.
"""

from nbagent.core.compat import hush_langchain
from nbagent.state.artifacts import Artifact
from nbagent.state.bus import BusEvent, EventType, Subscription
from nbagent.state.checkpoints import ThreadMemory
from nbagent.state.manager import StateManager
from nbagent.state.scopes import StateEntry, StateScope

__all__ = [
    "Artifact",
    "BusEvent",
    "EventType",
    "StateEntry",
    "StateManager",
    "StateScope",
    "Subscription",
    "ThreadMemory",
]

hush_langchain()
