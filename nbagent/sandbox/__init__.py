"""Sandboxes: the engines that make them, and what these share. Higher floors use `contract` and `registry` only.

contract         `Engine` and `Sandbox`: what every engine has
registry         finds the engines that are installed, and chooses one
spec             what a sandbox is to be, as a value
engines/         one module an engine
machine/         what the engines of this machine share
provisioner      the same sandboxes for Jupyter's clients
environment      the Python environment of the kernels
leases/          which process controls a sandbox, and what on the host belongs to it
limits/          system call filters and control groups
data/            what a sandbox sees of the person's files
results/         where the files land that its code saves
channels/        ZeroMQ's protocol over sockets
connection_file  the address of a kernel that runs already
untrusted        the one parser of what a sandbox says
exit, paths      how a kernel ended; where things are inside
inside/          runs in the sandbox
"""
