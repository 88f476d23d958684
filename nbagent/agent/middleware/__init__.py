"""What surrounds a call of the model, one middleware a file; from outside to inside, as `agent/build.py` has them.

evaluate     looks at an answer: numbers that stand in no output, and a second computation
replies      judges each whole reply; `structured` makes calls of JSON, `in_order` runs calls one at a time
approve      asks a person before a tool runs
reflexion    criticises failing code, and ends the turn when enough has failed
mcp_tools    tools of MCP servers; `forge_tools` those of the forge, `offering` those for scripts and programs
spending     keeps a question within its budget
retries      tries again where that helps, also with the fallback models
exchange     fits a request to its provider, and checks that a reply is whole
outgoing     takes secrets out of a request, and reports what leaves
stack        joins them all into one; `types` is what they have in common
"""
