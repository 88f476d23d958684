"""State, artifacts and events that outlive a session, and conversations that go on after a restart.

    scopes      who shares a state, how long it lives, and its form
    artifacts   large content as files named by their hash
    bus         publishing and subscribing, across sessions and processes
    states      states in LangGraph's store
    views       what of sessions and of the library of tools is shown among them
    bell        wakes whoever waits for a file to change
    manager     all of this as one: `StateManager`
    turns       a conversation's place in a checkpointer
    backends    the URL → LangGraph's checkpointer and store, and the event log

LangGraph is imported when a back end is opened, not before.
"""

from nbagent.core.compat import hush_langchain
from nbagent.state.artifacts import Artifact
from nbagent.state.bus import BusEvent, EventType, Subscription
from nbagent.state.manager import StateManager
from nbagent.state.scopes import StateEntry, StateScope
from nbagent.state.turns import Turns

__all__ = ["Artifact", "BusEvent", "EventType", "StateEntry", "StateManager", "StateScope", "Subscription", "Turns"]

hush_langchain()
