"""Sessions end in every case, and never while a call uses them.

Calls of one resource under one session id share a session and take turns on it.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass, field

from outrider.tools.context import ToolContext
from outrider.tools.registry import Session, SessionFactory

IDLE_SECONDS = 1_800.0

Key = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    temporary: bool
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    session: Session | None = None
    expiry: asyncio.TimerHandle | None = None


class Turn:
    """One call's turn on a session."""

    def __init__(self, key: Key, entry: _Entry, factory: SessionFactory) -> None:
        self.session_id = key[1]
        self.temporary = entry.temporary
        self.broken = False
        """Set where the session can't be used again."""
        self._entry = entry
        self._factory = factory

    async def session(self, context: ToolContext) -> Session:
        """Return the session, made now if this is its first call."""
        if self._entry.session is None:
            self._entry.session = await self._factory(context)
        return self._entry.session


class SessionPool:
    """The sessions of one child."""

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._entries: dict[Key, _Entry] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False

    @contextlib.asynccontextmanager
    async def turn(
        self, resource: str, session_id: str | None, factory: SessionFactory
    ) -> AsyncGenerator[Turn]:
        """Wait for a turn on a session; without an id it is a temporary one, for this call only."""
        key = (resource, session_id or f"{resource}_{secrets.token_hex(4)}")
        entry = self._entries.setdefault(key, _Entry(temporary=session_id is None))
        entry.users += 1
        if entry.expiry is not None:
            entry.expiry.cancel()
        try:
            async with entry.lock:
                if self._closed:
                    raise RuntimeError("the sessions of this child have ended")
                turn = Turn(key, entry, factory)
                try:
                    yield turn
                finally:
                    await self._drop_if_broken(entry, turn)
        finally:
            entry.users -= 1
            if entry.users == 0:
                await self._leave(key, entry)

    async def aclose(self) -> None:
        """End all sessions, those in use too."""
        self._closed = True
        for entry in self._entries.values():
            if entry.expiry is not None:
                entry.expiry.cancel()
            self._begin_end(entry)
        self._entries.clear()
        while self._endings:
            await asyncio.wait(self._endings)

    async def _drop_if_broken(self, entry: _Entry, turn: Turn) -> None:
        session = entry.session
        if session is not None and (turn.broken or not session.alive):
            await self._end(entry)

    async def _leave(self, key: Key, entry: _Entry) -> None:
        if entry.temporary or self._closed or entry.session is None:
            self._forget(key, entry)
            await self._end(entry)
        else:
            loop = asyncio.get_running_loop()
            entry.expiry = loop.call_later(self._idle_seconds, self._expire, key, entry)

    def _expire(self, key: Key, entry: _Entry) -> None:
        if entry.users == 0:
            self._forget(key, entry)
            self._begin_end(entry)

    def _forget(self, key: Key, entry: _Entry) -> None:
        if self._entries.get(key) is entry:
            del self._entries[key]

    async def _end(self, entry: _Entry) -> None:
        ending = self._begin_end(entry)
        if ending is not None:
            # A cancelled call must not leave the ending of its session half done.
            await asyncio.shield(ending)

    def _begin_end(self, entry: _Entry) -> asyncio.Task[None] | None:
        session, entry.session = entry.session, None
        if session is None:
            return None
        ending = asyncio.create_task(_quietly(session.aclose()))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending


async def _quietly(closing: Coroutine[object, object, None]) -> None:
    # The session is given up; a fault in its ending is no reason to fail the call.
    with contextlib.suppress(Exception):
        await closing
