"""The system calls and arguments that the filters of `seccomp.py` refuse, and why each could do harm."""

from __future__ import annotations

LAST_REVIEWED = 451
"""The newest system call that was reviewed; all architectures share the numbers from 424 on."""

DENIED = frozenset(
    """
    acct add_key adjtimex bpf cachestat chroot clock_adjtime clock_settime clone3 create_module delete_module
    fanotify_init fanotify_mark finit_module fsconfig fsmount fsopen fspick get_kernel_syms init_module inotify_init
    inotify_init1 io_setup io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load
    keyctl lookup_dcookie mbind memfd_secret migrate_pages mincore modify_ldt mount mount_setattr move_mount move_pages
    name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open personality pidfd_getfd pivot_root
    process_madvise process_mrelease process_vm_readv process_vm_writev ptrace query_module quotactl quotactl_fd
    reboot request_key set_mempolicy set_mempolicy_home_node setdomainname sethostname setns settimeofday stime
    swapoff swapon sysfs syslog _sysctl umount umount2 unshare uselib userfaultfd ustat vhangup vm86 vm86old
    """.split()
)
"""Calls that no code of a data analysis needs, and through which code has escaped from sandboxes.

`clone3` hides its flags from filters; without it the C library falls back to `clone`, whose flags are checked.
`inotify` tells when anybody on the host opens a file that the sandbox sees too, such as a program in /usr/bin, and its
instances are few for each user; `cachestat` and, for files of the same user, `mincore` tell which anybody has read.
`io_setup` takes from a number that the whole machine shares.
"""

NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | NEWTIME, from linux/sched.h."""
CLONE_FILES, CLONE_THREAD = 0x400, 0x00010000
CLOSE_RANGE_UNSHARE = 2
NOTHING = 0
"""As the number of an error: Linux doesn't make the call, and reports success."""
INTERNET = (2, 10)
"""AF_INET and AF_INET6. Beside these only AF_UNIX is allowed: AF_VSOCK reaches the hypervisor, and unread answers of
AF_NETLINK fill memory that Linux charges to nobody."""
PROTOCOLS = (0, 6, 17)
"""TCP, UDP, and the default. Linux counts the memory of others, such as MPTCP and UDP-Lite, apart."""
LAST_PROTOCOL = 17
LINE_DISCIPLINE = 0x5423
"""The ioctl TIOCSETD, for which Linux may load a module into itself that only modems need."""
TERMINAL_INJECTION = (0x5412, 0x541C)
"""The ioctls TIOCSTI and TIOCLINUX, which type into a terminal. Linux reads the low 32 bits only, and so do we."""
LOW_BITS = 0xFFFFFFFF
ONLY_ONESELF = ("sched_setaffinity", "sched_setattr")
"""Calls that change how a process runs; their first argument must be 0, which means the caller.

Process 1 has the user that code runs as, so Linux would let code take the processor from it, and that not only by its
own number: also by those of its threads, its group and its user.
"""
AS_IF_DONE = ("sched_setparam", "sched_setscheduler")
"""Calls of the same kind that ZeroMQ's threads make with their own number; if they fail, they end the process.

Code gains nothing by them. For process 1 they are refused, for all others reported as done, without being made.
"""
ONLY_ONESELF_BY_KIND = {"setpriority": 0, "ioprio_set": 1}
"""Calls of the same kind whose first argument says what the second one numbers: the value that means a process."""
SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open")
"""Calls that send a signal to the process that their first argument names, or prepare that."""
FORWARDER = 0x7FFFFFFE
"""A number that no process has: `inside.py` replaces it by that of the process that passes bytes to the egress proxy
(`forward.py`), which is known only there."""

OUT_OF_BAND = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3, "recvfrom": 3, "recvmsg": 2, "recvmmsg": 3}
"""Calls, each with the number of the argument that may have the flag MSG_OOB (1). Nobody uses it on Unix sockets, and
code has escaped from sandboxes through its implementation in Linux (CVE-2025-38236)."""

OTHERS_FILES = (1024, 1026)
"""The fcntls F_SETLEASE and F_NOTIFY, which hold up or watch others that use a file of the data."""
OWNERS = {"fcntl": (8, 10, 15), "ioctl": (0x8901, 0x8902)}
"""F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN and SIOCSPGRP, by which Linux signals any process when a file is ready."""
LOCKS = (6, 7)
"""The fcntls F_SETLK and F_SETLKW."""
OWNERLESS_LOCKS = (37, 38)
"""F_OFD_SETLK and F_OFD_SETLKW: locks of an open file, for which Linux names no process."""
TCP_ULP = 31
"""The option that puts a protocol such as TLS on top of TCP within Linux, through which sandboxes have been left."""
SOCKET_FILTERS = (26, 50, 51, 52)
"""SO_ATTACH_FILTER, SO_ATTACH_BPF, and both for SO_REUSEPORT. Their programs, like seccomp's filters, take room of
which the whole machine has one supply (`net.core.bpf_jit_limit`)."""
PR_SET_DUMPABLE = 4
CORE = 4
"""RLIMIT_CORE. At 1, Linux gives a crashed process to no program of the host's, which it starts as root for any other
limit, also for 0, where `core_pattern` names one (core(5)); so the limit stays what it is.

Where `core_pattern` begins with `@`, Linux (6.16 and newer) connects to that socket at any limit. It doesn't only for
processes that aren't dumpable; whatever executes a program is dumpable again, and process 1 looks into those that are.
So nothing is claimed there (`instance.known_on_machine`), and what crashes leaves no memory (`hardening_inside.py`)."""
_SIGNALS_AND_NAMES = {*range(1, 17), 19, 20, 21}
_PRIVILEGES = {*range(23, 31), *range(36, 40), 47}
_PROCESSOR = {41, 42, 45, 46, *range(50, 59), 60, 61, *range(63, 67)}
PROCESS_OPTIONS = frozenset(_SIGNALS_AND_NAMES | _PRIVILEGES | _PROCESSOR)
"""The options of `prctl` that cost nothing: signals, names, rounding, floating point, speculation, privileges given up.

Not 22, a filter of code's own (see `SOCKET_FILTERS`); nor names for pieces of memory (0x53564d41), which Linux keeps
and charges to nobody, 96 bytes each; nor any option that isn't listed, also those that later Linuxes will have.
"""
MADV_MERGEABLE = 12
"""The advice of `madvise` by which Linux looks for pages with the same contents, also those of virtual machines on the
host: how long a write takes then tells what is in these. It looks in its own time, which is charged to nobody."""
HUGE_PAGES = {"mmap": (3, 0x40000), "memfd_create": (1, 4), "shmget": (2, 0o4000)}
"""Calls with the argument and the flag of it that ask for huge pages: those that an administrator has set aside, for a
database say, are the whole machine's, and no limit on memory counts them."""

ATTRIBUTES = ("setxattr", "lsetxattr", "fsetxattr")
"""Calls that give a file extended attributes. Linux keeps an access control list of 64 KB for each file of a tmpfs, and
charges nobody for it: a thousand empty files would hide 64 MB, a folder twice as much."""

WAITS = {"poll": 1, "ppoll": 1, "select": 0, "pselect6": 0}
"""Calls that wait for files, each with the number of the argument that counts them. While a thread waits, Linux keeps
64 to 128 bytes for each, a file that is named twice counted twice, and charges nobody for them: a megabyte a thread."""
MOST_AWAITED = 1024
"""As many as `select` takes in the C library; `epoll`, which is charged, has no such bound."""

FLUSHES = ("fsync", "fdatasync", "sync", "syncfs", "sync_file_range")
"""Calls that write to the disk what is not there yet, also for a file that may only be read: the host's disk would do
nothing else. What a sandbox can write itself is in memory, where there is nothing to flush."""
MS_SYNC = 4
"""The flag by which `msync` does the same."""
RWF_NOWAIT = 8
"""The flag of `preadv2` by which a read tells whether a page of a file is in memory, so whether anybody has read it."""
FADV_DONTNEED = 4
"""The advice by which a file that others use leaves memory, and which makes room for the next look."""
