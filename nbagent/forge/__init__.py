"""The tool forge: tools that a model or a person describes, made and tested in sandboxes of their own, and kept.

    stages      the stages of a tool, pure
    tool        the values: `Draft` is what is asked for, `Tool` what is kept; checks of drafts
    source      reads Python source without running it, pure
    workshop    makes a tool in a fresh sandbox; `load_inside` and `tests_inside` run in there
    schema      checks the parameters' schema that comes from the sandbox, pure
    judge       judges pytest's report that comes from the sandbox, pure
    library     keeps tools on disk
    adapter     makes drafts that wrap functions of packages, pure
    porting     writes tools to files, and reads them as drafts
    forge       `ToolForge`, which has all of this

`agent/middleware/forge_tools.py` offers tools to the model, `agent/tools/forged.py` runs them in its notebook.
"""

from nbagent.forge.forge import ToolForge
from nbagent.forge.library import ToolEntry
from nbagent.forge.stages import Stage
from nbagent.forge.tool import Draft, Tool

__all__ = ["Draft", "Stage", "Tool", "ToolEntry", "ToolForge"]
