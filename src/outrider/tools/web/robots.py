"""`robots.txt`: what a site asks programs not to fetch, read once for each origin in a run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.web.addresses import WebAddress

MAX_RULES_BYTES = 512 << 10
ROBOT = "Outrider"


class RobotsRules:
    """Asks each origin for its rules, and refuses what they forbid."""

    def __init__(self, get: Callable[[str], Awaitable[tuple[int, bytes]]]) -> None:
        """`get` returns the status and the body that an address gives."""
        self._get = get
        self._rules: dict[str, Any] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def check(self, address: WebAddress) -> None:
        """Raise `ToolFault` where the site's rules forbid an address, or can't be known."""
        origin = address.origin
        async with self._asking.setdefault(origin, asyncio.Lock()):
            if origin not in self._rules:
                self._rules[origin] = await self._asked(origin)
        if not self._rules[origin].can_fetch(ROBOT, address.url):
            message = f"{origin}/robots.txt doesn't allow {address.shown} (web.respectRobots)"
            raise ToolFault(ToolCode.DENIED, message)

    async def _asked(self, origin: str) -> Any:
        from urllib.robotparser import RobotFileParser  # a heavy import, and seldom needed

        status, body = await self._get(f"{origin}/robots.txt")
        text = body[:MAX_RULES_BYTES].decode(errors="replace")
        if status >= 400:  # RFC 9309: what isn't there allows all, what fails nothing
            text = "User-agent: *\nDisallow: /" if status >= 500 else ""
        rules = RobotFileParser()
        await asyncio.to_thread(rules.parse, text.splitlines())
        return rules
