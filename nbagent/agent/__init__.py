"""The agent: decides what to run. LangChain and LangGraph are imported in this folder only, and only when needed.

`models` opens the model that a person names, `replay` is the model that hands out recorded replies, `prompts` says what
the model is told, `tools` is what it can do, `view` is what it sees of a cell, and `build` puts them together.
"""
