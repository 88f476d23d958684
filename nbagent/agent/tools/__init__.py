"""The tools of the model, and the cells in which they do their work.

python         `python` and `install`; `code` finds the Python in what a model sent
data_tools     `describe` and `find`
sandbox_tools  `sandbox_exec`, `sandbox_write_file` and `sandbox_edit_file`; work in `scripts`, cells in `script_cells`
forged         tools of the forge, in `tool_cells`
any_tool       a tool whose arguments are described by a JSON Schema
"""
