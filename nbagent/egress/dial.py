"""Connects to a host by its name: looked up once, each address judged, and connected to the very address judged."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

from nbagent.egress.hosts import Denied, is_public

LOOKUP_SECONDS = 10.0
CONNECT_SECONDS = 15.0
"""For all addresses together."""
ONE_SECONDS = 5.0
"""For one of them."""
LOOKUPS = 8
"""At a time: each takes a thread, which a silent name server holds for longer than we wait."""


class Dialer:
    """Opens connections for one sandbox."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(LOOKUPS)

    async def connect(self, host: str, port: int) -> tuple[socket.socket, str]:
        """A connection, and the address it leads to.

        Raises:
            Denied: The name isn't known, one of its addresses is not on the Internet, or none of them answers.
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
        """All addresses of a name, each of them judged.

        One that isn't public condemns them all: honest names don't mix, and a name server of the attacker's does.

        Raises:
            Denied: There are none, or one of them isn't a host's on the Internet, or is this machine's own.
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
        """Addresses as the system's resolver has them, in its order."""
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
    """Whether an address is one of this machine's: what it serves to itself passes by its firewalls.

    Linux says so by itself: what is sent to an own address comes from that address. Nothing is sent.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port))
            return bool(probe.getsockname()[0] == address)
    except OSError:
        return False  # no way there at all
