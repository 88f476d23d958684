"""Process 1 of a sandbox: collects processes that end, and ends all when nobody owns the sandbox any more.

It is `inside.py` after its fork: the parent of the kernel, trusted, unprivileged, outside of the inner system call
filter and closed to the code inside, which may neither look into it nor signal it. It knows whether its controller
lives by a connection that the controller holds open; Linux closes that however the controller ends. Then the sandbox
waits to be taken over for as long as its lease says, and ends itself.

Its controllers speak to it through a socket in the lease's private folder (`machine/supervisor.py`): one JSON line a
request, one an answer. Standard library only, of whatever version the sandbox has.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

from commands_inside import Commands  # type: ignore[import-not-found]  # beside this file, in there
from overuse_inside import IDLE_LOOK_SECONDS, LOOK_SECONDS, OveruseWatch, counted, is_dying  # type: ignore[import-not-found]
from shells_inside import ShellError, start_shell  # type: ignore[import-not-found]

REQUEST_SECONDS = 5.0
MAX_REQUEST = 4096
MAX_UNTOLD = 1000
"""Programs that are remembered while nobody owns the sandbox."""
LAST_WORDS = 1.0
"""Seconds that an owner has, at the end, to take what waits for it."""
DESERTED = 75
"""Exit code of a sandbox that nobody took over."""
BROKEN = 70
"""Exit code of a sandbox whose process 1 could not go on."""
OVERUSED = 71
"""Exit code of a sandbox that took too much of what the machine shares (`overuse_inside.py`)."""


class Supervisor:
    """The loop of process 1.

    Args:
        child: The kernel's process.
        controller: The connection that the controller holds open.
        listening: Where others connect.
        keep: Seconds to live on without a controller.
        shell: Turns a new process into a shell; None where there must be none.
        asking: Where the kernel's process, and shells, send the descriptor by which Linux asks before a program runs.
        report: Sends that descriptor, from a new process that is to become a shell.
    """

    def __init__(
        self,
        child: int,
        controller: socket.socket,
        listening: socket.socket,
        *,
        keep: float,
        shell: Callable[[], NoReturn] | None,
        asking: socket.socket | None = None,
        report: Callable[[], None] | None = None,
    ) -> None:
        self.child = child
        self.listening = listening
        self.keep = keep
        self.shell = shell
        self.holders: dict[socket.socket, bytes] = {}
        """The connections of owners, each with bytes that still have to be sent."""
        self.shells: dict[int, socket.socket] = {}
        self.deserted_at: float | None = None
        self.asking = asking
        self.report = report
        self.commands: list[Commands] = []
        self.untold: deque[dict[str, Any]] = deque(maxlen=MAX_UNTOLD)
        self.forgotten = 0
        # Where this isn't process 1, nothing is bounded, and what it sees is the machine's.
        self.watch_over = OveruseWatch(child) if os.getpid() == 1 else None
        self.look_at_machine = time.monotonic() + LOOK_SECONDS
        self.alive_at = time.monotonic()
        """When the kernel was last seen without a signal that kills it."""
        self.selector = selectors.EpollSelector()
        self.something = select.epoll()
        """Says whether the selector has anything to tell, with less work than the selector itself."""
        self.something.register(self.selector.fileno(), select.EPOLLIN)
        self.selector.register(listening, selectors.EVENT_READ)
        if asking is not None:
            self.selector.register(asking, selectors.EVENT_READ)
        self.hold(controller)

    def run(self) -> NoReturn:
        """Serve until the kernel ends, or the sandbox had no owner for too long."""
        try:
            self.serve()
        finally:
            # No message is printed: if nobody reads the output, a print would never end.
            os._exit(BROKEN)

    def serve(self) -> None:
        """The loop itself."""
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        self.selector.register(woken, selectors.EVENT_READ)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.pass_on)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self.collect()
        while True:
            self.wait()
            for key, events in self.selector.select(0):
                if key.fileobj is woken:
                    with contextlib.suppress(BlockingIOError):
                        woken.recv(4096)
                    self.collect()
                elif key.fileobj is self.listening:
                    self.answer()
                elif key.fileobj is self.asking:
                    self.watch_commands()
                elif isinstance(key.data, Commands):
                    self.look_at(key.data)
                elif events & selectors.EVENT_WRITE:
                    self.send(key.fileobj)
                else:
                    self.listen_to(key.fileobj)
            if self.seconds_left() == 0:
                self.end(DESERTED)
            self.end_overuse()

    def pass_on(self, number: int, _: object) -> None:
        """Give a signal to the kernel, which is what was meant."""
        with contextlib.suppress(OSError):
            os.kill(self.child, number)

    def seconds_left(self) -> float | None:
        """Seconds until this sandbox ends itself; None as long as somebody owns it."""
        if self.deserted_at is None:
            return None
        return max(0.0, self.deserted_at + self.keep - time.monotonic())

    def seconds_to_wait(self) -> float | None:
        """Seconds until the next check that no event announces; None if there is none."""
        left = self.seconds_left()
        if self.watch_over is None:
            return left
        look: float = max(0.0, self.look_at_machine - time.monotonic())
        return look if left is None else min(look, left)

    def wait(self) -> None:
        """Wait until something happens or a check is due, except for looks at a sandbox that was idle."""
        happened = self.something.poll(self.seconds_to_wait())
        # Beside every kernel that waits, this turns once a second, in cold caches: each line costs microseconds.
        while not happened and self.watch_over is not None and self.watch_over.is_idle():
            left = self.seconds_left()
            if left == 0:
                return
            happened = self.something.poll(IDLE_LOOK_SECONDS if left is None else min(IDLE_LOOK_SECONDS, left))

    def end_overuse(self) -> None:
        """From time to time, look whether the sandbox took too much of what the machine shares; then end it."""
        if self.watch_over is None or time.monotonic() < self.look_at_machine:
            return
        if not is_dying(self.child):
            self.alive_at = time.monotonic()
        if overuse := self.watch_over.overuse():
            # Kill first: the reader of the last words may keep this process waiting.
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)
            self.say_last({"exit": OVERUSED, "overuse": overuse})
            self.end(OVERUSED)
        # A look may take long.
        self.look_at_machine = time.monotonic() + LOOK_SECONDS

    def hold(self, connection: socket.socket) -> None:
        """Take an owner's connection: the sandbox lives as long as that is open."""
        connection.setblocking(False)
        self.holders[connection] = b""
        self.selector.register(connection, selectors.EVENT_READ)
        self.deserted_at = None

    def watch_commands(self) -> None:
        """Receive the descriptor by which Linux asks, from a process that has just begun."""
        assert self.asking is not None  # noqa: S101 - it was selected
        with contextlib.suppress(OSError):
            _, descriptors, _, _ = socket.recv_fds(self.asking, 1, 1)
            for each in descriptors:
                self.commands.append(Commands(each, tell=self.tell))
                self.watch(self.commands[-1], wanted=not any(self.holders.values()))

    def look_at(self, commands: Commands) -> None:
        """Answer what Linux asks, unless earlier reports still wait for an owner."""
        if commands.are_over():
            # A shell has ended, with all that it started.
            commands.flush()
            self.commands.remove(commands)
            self.selector.unregister(commands.descriptor)
            os.close(commands.descriptor)
        elif not any(self.holders.values()):
            commands.answer()

    def tell(self, command: dict[str, Any]) -> None:
        """Report a program to the owners; while there is none, keep it for the next one."""
        if not self.holders:
            self.forgotten += len(self.untold) == MAX_UNTOLD
            self.untold.append(command)
        for holder in self.holders:
            self.send(holder, command)

    def tell_late(self, holder: socket.socket) -> None:
        """Report to a new owner what ran while there was none."""
        if self.forgotten:
            self.send(holder, {"pid": 0, "argv": [f"({self.forgotten} more programs)"]})
            self.forgotten = 0
        while self.untold:
            self.send(holder, self.untold.popleft())

    def send(self, holder: Any, *values: dict[str, Any]) -> None:
        """Send an owner what still waits for it, and then these values, a line each.

        The owner may be busy, and code inside can cause that. Until it has read all, no program is executed: otherwise
        one could be hidden behind others.
        """
        waiting = self.holders[holder] + b"".join(json.dumps(each).encode() + b"\n" for each in values)
        try:
            sent = holder.send(waiting)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(waiting)  # it is gone, which its connection tells
        self.holders[holder] = waiting = waiting[sent:]
        self.selector.modify(holder, selectors.EVENT_READ | selectors.EVENT_WRITE * bool(waiting))
        paused = any(self.holders.values())
        for each in self.commands:
            if paused != (each.descriptor not in self.selector.get_map()):
                self.watch(each, not paused)

    def watch(self, commands: Commands, wanted: bool) -> None:
        """Take requests to execute a program, or let them wait."""
        if wanted:
            self.selector.register(commands.descriptor, selectors.EVENT_READ, commands)
        else:
            self.selector.unregister(commands.descriptor)

    def listen_to(self, connection: Any) -> None:
        """Read an owner's connection, which means nothing until it ends: then forget the owner."""
        try:
            if connection.recv(MAX_REQUEST):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self.selector.unregister(connection)
        del self.holders[connection]
        connection.close()
        for each in self.commands:
            # It may have been the one that was waited for.
            if each.descriptor not in self.selector.get_map() and not any(self.holders.values()):
                self.watch(each, wanted=True)
        if not self.holders:
            self.deserted_at = time.monotonic()

    def collect(self) -> None:
        """Collect every process that has ended; the kernel's own end is the end of all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if pid == self.child:
                self.say_last({"exit": code, "alive_at": self.alive_at})
                self.end(code if code >= 0 else 128 - code)
            if (caller := self.shells.pop(pid, None)) is not None:
                self.reply(caller, {"exit": code})
                caller.close()

    def say_last(self, words: dict[str, Any]) -> None:
        """Send the owners what waits for them, then how the sandbox ended and what it had used."""
        for each in self.commands:
            each.flush()
        for holder, waiting in self.holders.items():
            holder.settimeout(LAST_WORDS)
            with contextlib.suppress(OSError):
                holder.sendall(waiting)
            self.reply(holder, {**words, **counted()})

    def end(self, code: int) -> NoReturn:
        """End: with process 1 all others end; where this isn't process 1, the kernel at least."""
        with contextlib.suppress(OSError):
            os.kill(self.child, signal.SIGKILL)
        os._exit(code)

    def answer(self) -> None:
        """Serve one caller, which can only be a process of the controller's user."""
        try:
            caller, _ = self.listening.accept()
        except OSError:
            # The caller is gone, or too many files are open: it can try once more.
            return
        caller.settimeout(REQUEST_SECONDS)
        try:
            descriptors: list[int] = []
            text, descriptors, _, _ = socket.recv_fds(caller, MAX_REQUEST, 1)
            request = json.loads(text)
            verb, keep = request.get("do"), float(request.get("keep", self.keep))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            caller.close()
            return
        if verb == "hold":
            left, self.keep = self.seconds_left(), keep
            self.hold(caller)
            self.send(caller, {"alone": left is not None})
            self.tell_late(caller)
        elif verb == "shell" and descriptors:
            self.open_shell(caller, descriptors.pop())
        else:
            if verb == "end":
                self.end(0)
            if verb == "interrupt":
                # The kernel leads a group, in which are the programs that its cell has started.
                with contextlib.suppress(OSError):
                    os.killpg(self.child, signal.SIGINT)
            self.reply(caller, {"seconds_left": self.seconds_left()})
            caller.close()
        for each in descriptors:
            os.close(each)

    def reply(self, caller: socket.socket, value: dict[str, Any]) -> None:
        """Answer a caller, who may be gone, with one line."""
        with contextlib.suppress(OSError):
            caller.sendall(json.dumps(value).encode() + b"\n")

    def open_shell(self, caller: socket.socket, terminal: int) -> None:
        """Start a shell on the terminal that the caller sent; the caller is told its exit code."""
        try:
            if self.shell is None:
                raise ShellError("This sandbox has no shell.")
            self.shells[start_shell(terminal, self.shell, self.report)] = caller
        except ShellError as error:
            self.reply(caller, {"error": str(error)})
            caller.close()
        finally:
            os.close(terminal)
