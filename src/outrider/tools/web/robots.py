"""`robots.txt`: what a site asks programs not to fetch, read once for each origin in a run."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.web.addresses import WebAddress

if TYPE_CHECKING:
    from outrider.tools.web.client import Response

MAX_RULES_BYTES = 512 << 10
ROBOT = "Outrider"


class RobotsRules:
    """Asks each origin for its rules, and refuses what they forbid."""

    def __init__(self, get: "Callable[[WebAddress], Awaitable[Response]]") -> None:
        self._get = get
        self._rules: dict[str, Any] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def check(self, address: WebAddress) -> None:
        """Raise `ToolFault` where the site's rules forbid an address, or can't be known."""
        origin = address.origin
        async with self._asking.setdefault(origin, asyncio.Lock()):
            if origin not in self._rules:
                self._rules[origin] = await self._asked(address)
        if not self._rules[origin].can_fetch(ROBOT, address.url):
            path = address.target.partition("?")[0]
            message = f"{origin}/robots.txt doesn't allow {path} (web.respectRobots)"
            raise ToolFault(ToolCode.DENIED, message)

    async def _asked(self, address: WebAddress) -> Any:
        from urllib.robotparser import RobotFileParser  # a heavy import, and seldom needed

        response = await self._get(replace(address, target="/robots.txt"))
        text = response.body[:MAX_RULES_BYTES].decode(errors="replace")
        if response.status >= 400:  # RFC 9309: what isn't there allows all, what fails nothing
            text = "User-agent: *\nDisallow: /" if response.status >= 500 else ""
        rules = RobotFileParser()
        await asyncio.to_thread(rules.parse, text.splitlines())
        return rules
