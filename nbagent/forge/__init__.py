"""The tool forge: tools that a model or a person describes, made and tested in sandboxes of their own, and kept.

    stages      where a tool is in its life, pure
    tool        a tool as a value: `Draft` before, `Tool` after; what of a draft is refused
    source      what reading Python tells, pure
    workshop    a fresh sandbox, dependencies, tests; `load_inside` and `tests_inside` run in there
    schema      what the sandbox says of a function's parameters, checked, pure
    verdict     what the sandbox says of the tests, judged, pure
    library     tools that outlive the process
    adapter     functions of packages as drafts, pure
    porting     tools as files
    forge       all of it as one: `ToolForge`

How a tool gets into a notebook is `agent/tools/tool_cells.py`, and to a model `agent/middleware/forge_tools.py`.
"""

from nbagent.forge.forge import ToolForge
from nbagent.forge.library import Listed
from nbagent.forge.stages import Stage
from nbagent.forge.tool import Draft, Tool

__all__ = ["Draft", "Listed", "Stage", "Tool", "ToolForge"]
