"""Real servers, from the machine's packages: private to a test run, on loopback, in a folder of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
import redis.exceptions

PASSWORD = "hunter2/with:odd@characters"  # noqa: S105 - of servers that live as long as a test
QUOTED = "hunter2%2Fwith%3Aodd%40characters"


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Redis:
    """A Redis server without modules, from Debian's package, that asks for a password.

    Args:
        folder: Its own.
        options: Further words of its command line.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.folder = folder
        self.options = options
        self.url = f"redis://:{QUOTED}@127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers: it listens while it still loads its data."""
        program = shutil.which("redis-server")
        assert program, "redis-server is not installed; run: .ci/setup tests"
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        command += ["--requirepass", PASSWORD, "--loglevel", "warning", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for_port(self.port, self.process)
        with redis.Redis.from_url(self.url) as client:
            until = time.monotonic() + 60
            while True:
                try:
                    client.ping()
                    return
                except redis.exceptions.BusyLoadingError:
                    assert time.monotonic() < until
                    time.sleep(0.02)

    def stop(self) -> None:
        """Kill it, as a machine that fails does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Postgres:
    """A Postgres server, from Debian's package, that asks for a password. As root it runs as `postgres`, as it demands.

    Args:
        folder: Its own.
    """

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self.data = folder / "data"
        self.url = f"postgresql://nbagent:{QUOTED}@127.0.0.1:{self.port}/postgres"
        self.process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make its files, with one user."""
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if os.getuid() == 0:
            for path in (self.folder, secret):
                shutil.chown(path, "postgres", "postgres")
        command = [self._program("initdb"), "-D", str(self.data), "-U", "nbagent", "-A", "scram-sha-256"]
        command += [f"--pwfile={secret}", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8"]
        made = subprocess.run(command, capture_output=True, text=True, **self._user())
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [self._program("postgres"), "-D", str(self.data), "-p", str(self.port), "-k", str(self.folder)]
        for option in ("listen_addresses=127.0.0.1", "fsync=off", "shared_buffers=16MB", "logging_collector=off"):
            command += ["-c", option]
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(command, stderr=log, **self._user())
        wait_for_port(self.port, self.process)
        # It listens before it is ready.
        ready = [self._program("pg_isready"), "-h", "127.0.0.1", "-p", str(self.port), "-q"]
        until = time.monotonic() + 60
        while subprocess.run(ready, check=False).returncode != 0:
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """End it at once: SIGQUIT, which leaves no process behind."""
        if self.process is not None:
            self.process.send_signal(3)
            self.process.wait()
            self.process = None

    @staticmethod
    def _program(name: str) -> str:
        versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        program = str(versions[-1]) if versions else shutil.which(name)
        assert program, "postgresql is not installed; run: .ci/setup tests"
        return program

    @staticmethod
    def _user() -> dict[str, int]:
        if os.getuid() != 0:
            return {}
        who = pwd.getpwnam("postgres")
        return {"user": who.pw_uid, "group": who.pw_gid}


def wait_for_port(port: int, process: subprocess.Popen[bytes], *, seconds: float = 30) -> None:
    """Wait until somebody listens on a port of loopback."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert process.poll() is None, f"{process.args} ended with {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"nobody listens on port {port}")


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that other users can get to, as pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="nbs-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
