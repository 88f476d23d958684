"""Redis or Valkey, without any module: a checkpointer and a store of our own, and the event log in a stream.

LangGraph's package for Redis needs RediSearch and RedisJSON, which Debian's and most managed servers lack. This back
end uses core commands only (Redis 5 and later), through redis-py.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import AsyncExitStack
from typing import Any

import redis.asyncio
import redis.exceptions
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from nbagent.core.errors import StoreError
from nbagent.state.bus import BusEvent, event_of
from nbagent.state.guarded import PlainSerializer, Translate, guard, store_errors
from nbagent.state.redis_saver import PREFIX, PlainRedisSaver
from nbagent.state.redis_store import PlainRedisStore

CONNECT_SECONDS = 5.0
POOL_SIZE = 16
_OPTIONS = {"socket_connect_timeout": CONNECT_SECONDS, "health_check_interval": 30}
_EVENTS = f"{PREFIX}events"
_LAST = f"{PREFIX}events:last"
_NUMBER = f"{PREFIX}events:number:"
# Numbers without gaps, given in the order in which the events become visible. An event that is sent again, because the
# connection broke before the answer came, keeps its number.
_APPEND = """
local known = redis.call('GET', KEYS[3])
if known then return tonumber(known) end
local number = redis.call('INCR', KEYS[2])
redis.call('XADD', KEYS[1], number .. '-0', unpack(ARGV))
redis.call('SET', KEYS[3], number, 'EX', 60)
return number
"""


async def open_parts(
    stack: AsyncExitStack, url: str, *, place: str
) -> tuple[BaseCheckpointSaver[Any], BaseStore, RedisLog]:
    """The checkpointer, the store and the event log on a server."""

    def translate(error: BaseException) -> StoreError | None:
        return sentence(place, error) if isinstance(error, redis.exceptions.RedisError) else None

    try:
        # A connection to a server that was restarted fails when it is used; then the command is sent again.
        again = Retry(ExponentialBackoff(base=0.05, cap=0.5), retries=4)
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url, max_connections=POOL_SIZE, timeout=30, retry=again, **_OPTIONS
        )
    except ValueError:
        raise StoreError(f"{place} is no URL that Redis's client takes.") from None
    client = redis.asyncio.Redis.from_pool(pool)
    stack.push_async_callback(client.aclose)
    try:
        await client.ping()
    except (redis.exceptions.RedisError, OSError) as error:
        raise sentence(place, error) from None
    except TypeError:  # an option of the URL that redis-py passes on unchecked
        raise StoreError(f"{place} has options that Redis's client doesn't know.") from None
    saver = guard(PlainRedisSaver, translate)(client, serde=PlainSerializer())
    store = guard(PlainRedisStore, translate)(client)
    return saver, store, RedisLog(client, translate=translate)


class RedisLog:
    """An `EventLog` in a stream, whose ids are `NUMBER-0`."""

    def __init__(self, client: redis.asyncio.Redis, *, translate: Translate) -> None:
        self._client = client
        self._translate = translate
        self._seen: int | None = None

    async def append(self, event: BusEvent, *, payload: str) -> int:
        fields = {
            "created": repr(time.time()),
            "type": event.type.value,
            "source": event.source_agent,
            "target": event.target_agent or "",
            "task": event.task_id or "",
            "payload": payload,
        }
        words = [word for field in fields.items() for word in field]
        with store_errors(self._translate):
            number = _NUMBER + secrets.token_hex(12)
            return int(await self._client.eval(_APPEND, 3, _EVENTS, _LAST, number, *words))

    async def read(self, after: int, *, limit: int) -> list[BusEvent]:
        with store_errors(self._translate):
            found: Any = await self._client.xrange(_EVENTS, min=f"{after + 1}-0", count=limit)
        rows = [{"id": key.split(b"-")[0], **dict(map(_texts, row.items()))} for key, row in found]
        return list(map(event_of, rows))

    async def last(self) -> int:
        with store_errors(self._translate):
            return int(await self._client.get(_LAST) or 0)

    async def grown(self, seconds: float) -> None:
        with store_errors(self._translate):
            if self._seen is None:
                self._seen = await self.last()
                return  # events may have come before
            reply: Any = await self._client.xread({_EVENTS: f"{self._seen}-0"}, count=1, block=int(seconds * 1000))
            if reply:
                # One is enough to wake the subscribers, who read on by themselves.
                self._seen = await self.last()
                return
            if await self.last() < self._seen:
                self._seen = None  # the server came back without its data

    async def trim(self, *, keep: int, before: float) -> None:
        newest = await self.last()
        cut = max(newest - keep, await self._last_before(before, newest=newest))
        # By number, and not with MINID, which Redis 5 lacks.
        if cut > 0:
            with store_errors(self._translate):
                await self._client.xtrim(_EVENTS, maxlen=newest - cut, approximate=False)

    async def _last_before(self, before: float, *, newest: int) -> int:
        """The number of the last event from before a time, by binary search: clocks go forward."""
        low, high = 0, newest
        while low < high:
            middle = (low + high + 1) // 2
            found = await self.read(middle - 1, limit=1)
            if found and found[0].id <= newest and found[0].created >= before:
                high = middle - 1
            else:
                low = middle
            await asyncio.sleep(0)
        return low


def _texts(field: tuple[bytes, bytes]) -> tuple[str, str]:
    name, value = field
    return name.decode(errors="replace"), value.decode(errors="replace")


def sentence(place: str, error: BaseException) -> StoreError:
    """The error that says what the server answered."""
    match error:
        case redis.exceptions.AuthenticationError() | redis.exceptions.NoPermissionError():
            return StoreError(f"{place} refuses the user or the password.", mend="Look at the URL of the state.")
        case redis.exceptions.ConnectionError() | redis.exceptions.TimeoutError() | OSError():
            return StoreError(f"{place} doesn't answer ({type(error).__name__}).", mend="Is the server running?")
        case redis.exceptions.OutOfMemoryError():
            return StoreError(f"{place} has no room left.", mend="Raise its maxmemory.")
        case redis.exceptions.ResponseError() if "NOAUTH" in str(error) or "WRONGPASS" in str(error):
            return StoreError(f"{place} refuses the user or the password.", mend="Look at the URL of the state.")
        case redis.exceptions.ResponseError() if "MISCONF" in str(error):
            return StoreError(f"{place} can't write to its disk.", mend="Look at the server's log.")
        case _:
            return StoreError(f"{place} refused a request ({type(error).__name__}).")
