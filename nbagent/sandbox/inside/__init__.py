"""What runs inside of a sandbox beside the person's code. It imports the standard library and ipykernel only.

inside                starts the kernel, with `hardening_inside` before it and `forward` to the egress proxy beside it
supervisor_inside     process 1; `commands_inside` sees programs, `overuse_inside` counts, `shells_inside` starts shells
ipykernel_inside      the kernel; `streams_inside` is its stdout and stderr
message_sizes_inside  how large its messages may be
magics_inside         `%pip install` and PEP 723 blocks; `client_inside` is what other clients' kernels say
file_watch_inside     notices new and changed files; `results_inside` sends those that are saved for other clients
links_inside          data by plain names
"""
