"""Stdout and stderr of a kernel, as nbagent has them: this file is mounted beside `inside.py` and imported there.

ipykernel reads what programs and C libraries print from a pipe, in a thread that may come to it after the cell, or
after a result that was computed later. So that this output stands where it belongs, the pipe is read before each flush,
which happens at the end of each cell and before a result; and, once this process has started a program, before Python
itself writes anything.

Code that flushes after each line, thousands of times, has its text sent a hundred times a second instead: a message for
each line would take the kernel longer than the line. No other message overtakes text that waits so.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import select
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator
from typing import Any

MAX_TEXT = 128 * 1024
"""Characters of a stream in one message: a print of 100 MB must not reach the controller as one message."""
STARTS = frozenset({"os.system", "os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"})
"""Audit events by which Python starts a program. Before the first one, no write has to look into the pipe."""
PIECE = 1024
"""Bytes that are read from the pipe at once; so few that reading takes no longer than sending."""
PAUSE_SECONDS = 0.01
"""Seconds for which text may wait that was flushed while others of the same stream had only just been."""
FLUSHES = 1000
"""Flushes of a stream that are carried out at once, as ipykernel does; one more for each `PAUSE_SECONDS`. Text that
then waits is lost if the process crashes, and is late if C code keeps Python from running. Few cells flush so much."""


def in_order(out_stream: Any) -> Any:
    """Ipykernel's `OutStream` as a class whose messages have a bounded size, and programs' output its place in time."""
    started: list[str] = []  # programs since the first request; those of ipykernel's own start print nothing
    hears: list[bool] = []
    waiting: list[Any] = []  # the stream whose flush was put off: one at most, so that the order of the two stays
    sender = [0]  # the thread that sends text, while it does

    def send_waiting() -> None:
        """Send what was flushed and waits, and return when that is done."""
        for stream in waiting[:]:
            out_stream.flush(stream)

    os.register_at_fork(before=send_waiting)

    def hear(event: str, _arguments: object) -> None:
        if event in STARTS and not started:
            started.append(event)

    class Stream(out_stream):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._taking = threading.Lock()
            self._taker = 0
            self._should_watch = False
            self._fid: Any = None
            # A piece may end in the middle of a character.
            self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
            self._flushes = float(FLUSHES)
            self._flushed_at = 0.0
            super().__init__(*args, **kwargs)
            if self.name == "stdout":  # both send by the same
                self._let_none_overtake()

        def _let_none_overtake(self) -> None:
            """Have what waits sent before any other message."""
            send = self.pub_thread.send_multipart

            def send_in_turn(*args: Any, **kwargs: Any) -> None:
                if sender[0] != threading.get_ident():
                    send_waiting()
                send(*args, **kwargs)

            self.pub_thread.send_multipart = send_in_turn

        def _watch_pipe_fd(self) -> None:
            while True:
                select.select([self._fid], [], [])
                if not self._should_watch:
                    return
                self._take_printed()
                # A program must not print faster than this process can send: what waits is in its memory.
                super().flush()

        def _take_printed(self) -> None:
            """Write what is in the pipe, as far as it was there when this was called."""
            me = threading.get_ident()
            if self._taker == me or not self._has_pipe():
                return  # what is taken is being written, or a signal's handler prints
            with self._taking:
                self._taker = me
                try:
                    left = struct.unpack("i", fcntl.ioctl(self._fid, termios.FIONREAD, bytes(4)))[0]
                    while left > 0:
                        printed = os.read(self._fid, min(left, PIECE))
                        left -= len(printed) or left
                        super().write(self._decoder.decode(printed))
                        os.write(self._original_stdstream_copy, printed)
                finally:
                    self._taker = 0

        def _has_pipe(self) -> bool:
            """Whether there is a pipe of this process's own.

            A fork has its end too, but what is in there is its parent's; and the lock, maybe held by a thread that the
            fork has not: it must not be waited for.
            """
            return self._should_watch and self._fid is not None and bool(self._is_master_process())

        def write(self, string: str) -> int | None:
            if started:
                self._take_printed()  # or wait for the thread that takes it: it may have read what is not written yet
            written: int | None = super().write(string)
            return written

        def set_parent(self, parent: Any) -> None:
            if not hears:
                hears.append(True)
                sys.addaudithook(hear)
            super().set_parent(parent)

        def flush(self) -> None:
            self._take_printed()
            if not self._buffers and not sender[0]:
                return  # or another thread would be waited for, several times in each cell
            if self not in waiting:
                send_waiting()
            if not self._puts_off():
                super().flush()

        def _puts_off(self) -> bool:
            """After many flushes, put off sending what was written; returns whether it was put off."""
            now = time.monotonic()
            self._flushes = min(FLUSHES, self._flushes + (now - self._flushed_at) / PAUSE_SECONDS)
            self._flushed_at = now
            if self._flushes >= 1:
                self._flushes -= 1
                return False
            if not self._is_master_process():
                return False
            if self not in waiting:
                waiting.append(self)
                self.pub_thread.schedule(lambda: self._io_loop.call_later(PAUSE_SECONDS, send_waiting))
            return True

        def _flush(self) -> None:
            # First what waits, also of the other stream: it was flushed before this text was.
            while waiting:
                stream = waiting.pop()
                if stream is not self:
                    stream._flush()
            sender[0] = threading.get_ident()
            try:
                super()._flush()
            finally:
                sender[0] = 0

        def _flush_buffers(self) -> Iterator[tuple[Any, str]]:
            for parent, written in super()._flush_buffers():
                # A lone surrogate, such as in the name of a file that isn't UTF-8, can't be sent: it would take all
                # that was written with it along.
                text = written if written.isascii() else written.encode("utf-8", "backslashreplace").decode()
                for start in range(0, len(text), MAX_TEXT):
                    yield parent, text[start : start + MAX_TEXT]

    return Stream
