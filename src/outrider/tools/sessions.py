"""Sessions: calls with the same resource and id take turns in one, and it ends in any case."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from outrider.protocol.errors import OutriderError
from outrider.tools.context import ToolContext
from outrider.tools.registry import SessionFactory, ToolSession


@dataclass(slots=True)
class SessionLease:
    """The use of a session: of one call at a time, while others wait for the lock."""

    session_id: str
    temporary: bool
    factory: SessionFactory
    broken: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    opened: ToolSession | None = None

    async def session(self, context: ToolContext) -> ToolSession:
        """Return the session, made now if this is its first call."""
        if self.opened is None:
            self.opened = await self.factory(context)
        return self.opened


class SessionPool:
    def __init__(self) -> None:
        self._leases: dict[tuple[str, str], SessionLease] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    @contextlib.asynccontextmanager
    async def lease(
        self, resource: str, session_id: str | None, factory: SessionFactory
    ) -> AsyncGenerator[SessionLease]:
        """Wait until a session is free; without an id it is a temporary one, for this call only."""
        key = (resource, session_id or f"{resource}_{secrets.token_hex(4)}")
        lease = self._leases.setdefault(key, SessionLease(key[1], session_id is None, factory))
        async with lease.lock:
            if self._closed:
                raise OutriderError("the sessions of this child have ended")
            try:
                yield lease
            finally:
                if lease.temporary:
                    self._leases.pop(key, None)
                is_dead = lease.opened is not None and not lease.opened.alive
                if lease.temporary or lease.broken or is_dead or self._closed:
                    lease.broken = False
                    # A call that is cancelled now must not leave its session half closed.
                    await asyncio.shield(self._close(lease))

    async def aclose(self) -> None:
        self._closed = True
        for lease in self._leases.values():
            self._close(lease)
        self._leases.clear()
        while self._closing:
            await asyncio.wait(self._closing)

    def _close(self, lease: SessionLease) -> asyncio.Task[None]:
        session, lease.opened = lease.opened, None
        closing = asyncio.create_task(_close_quietly(session))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing


async def _close_quietly(session: ToolSession | None) -> None:
    # Nobody uses the session any more: a fault while it closes fails no call.
    with contextlib.suppress(Exception):
        if session is not None:
            await session.aclose()
