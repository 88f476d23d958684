"""Runs cells in a sandboxed kernel, whatever the engine.

kernel          `Kernel`: what the floors above use; lets one cell or request at a time through
runner          the steps of a cell, from its beginning to its end
execution       the values: a cell that is to run, and one request of it
timeout         how long a cell may run, and how it is stopped
process         the kernel's process: started, connected, replaced, ended
recovery        what follows the loss of a kernel; `cell_replay` runs its cells again
installs        packages for the kernel
host_questions  questions about hosts that code wants to reach
router          sorts a kernel's messages: to the cell that runs, to an earlier cell, to widgets
queries         requests that are no cells; `inside_calls` makes them, `inside/` has the code that they run
describe        profiles data files; `profile` and `profile_cache` keep the profiles, `find_text` looks for text
cpu_weight      gives a kernel whose cell has just begun more of the processor
channels/       the wire to a kernel: connection, messages, bounds
outputs/        messages in, nbformat outputs out
transfer/       files into a sandbox and out of it
pool/           kernels that were started ahead
"""
