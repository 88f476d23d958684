"""Connects to a host by its name: looks it up once, checks the addresses, and connects to one of these."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

from nbagent.egress.hosts import Denied, is_public

LOOKUP_SECONDS = 10.0
CONNECT_SECONDS = 15.0
"""Seconds in which one of a host's addresses must answer."""
ONE_SECONDS = 5.0
"""Seconds in which a single address must answer."""
LOOKUPS = 8
"""Look-ups at a time. Each takes a thread, which a silent name server may hold for longer than `LOOKUP_SECONDS`."""


class Dialer:
    """Opens connections for one sandbox."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(LOOKUPS)

    async def connect(self, host: str, port: int) -> tuple[socket.socket, str]:
        """Connect to a host; returns the socket and the address it leads to.

        Raises:
            Denied: The name isn't known, one of its addresses is not public, or none of them answers.
        """
        addresses = await self.addresses(host, port)
        failure = "it does not answer"
        end = time.monotonic() + CONNECT_SECONDS
        for address in addresses:
            seconds = min(ONE_SECONDS, end - time.monotonic())
            try:
                return await _connect(address, port, seconds), address
            except TimeoutError:
                continue
            except OSError as error:
                failure = (error.strerror or str(error)).lower()
        raise Denied(f"{host} can't be reached: {failure}.", status=502)

    async def addresses(self, host: str, port: int) -> list[str]:
        """Look a name up; returns its addresses, all of which may be connected to.

        A single address that isn't public makes the whole name refused: honest names don't mix public and private
        addresses, an attacker's name server does.

        Raises:
            Denied: There is no address, or one of them isn't public or is this machine's own.
        """
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                found = await self._look_up(host, port)
        except TimeoutError:
            raise Denied(f"The name {host} could not be looked up in time.", status=504) from None
        except OSError:
            raise Denied(f"The name {host} is not known.", status=502) from None
        for address in found:
            if not is_public(address) or is_own(address, port):
                raise Denied(f"{host} has an address that is not on the public Internet.", address=address)
        return found

    async def _look_up(self, host: str, port: int) -> list[str]:
        """The addresses that the system's resolver gives, in its order."""
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def settle(found: list[str], error: Exception | None) -> None:
            self._slots.release()
            if answer.done():
                return
            if error is None:
                answer.set_result(found)
            else:
                answer.set_exception(error)

        def work() -> None:
            found: list[str] = []
            failure: Exception | None = None
            try:
                # The dot makes the name absolute: no search domain can turn it into another one.
                results = socket.getaddrinfo(f"{host}.".encode(), port, type=socket.SOCK_STREAM)
                found = list(dict.fromkeys(str(address[0]) for *_, address in results))
            except OSError as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(settle, found, failure)

        # Not an executor: Python waits for an executor's threads before it exits.
        try:
            threading.Thread(target=work, name="nbagent-lookup", daemon=True).start()
        except RuntimeError as error:
            self._slots.release()
            raise OSError(f"no thread can be started: {error}") from error
        return await answer


async def _connect(address: str, port: int, seconds: float) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except BaseException:
        connection.close()
        raise
    return connection


def is_own(address: str, port: int) -> bool:
    """Whether an address is one of this machine's own: connections to these pass by its firewall.

    The test is Linux's own: a socket that is connected to an own address gets that address as its source. No packet is
    sent for it.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port))
            return bool(probe.getsockname()[0] == address)
    except OSError:
        return False  # there is no route to it
