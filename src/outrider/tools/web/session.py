"""What the web tools of one child share: its client, what it has found, and what it has read."""

from collections.abc import Mapping, MutableMapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.masking import Masker
from outrider.protocol.catalogue import SEARCH_KEYS
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.settings.keys import WebConfig
from outrider.tools.context import ToolContext
from outrider.tools.web.leaks import OutgoingGuard
from outrider.tools.web.store import PageStore

if TYPE_CHECKING:
    from outrider.tools.web.client import WebClient
    from outrider.tools.web.reading import PageReader


class WebSession:
    """One child's way to the web. What is heavy is loaded when it is first needed."""

    def __init__(
        self,
        config: WebConfig,
        *,
        keys: Mapping[str, str],
        mask: Masker,
        state: Path | None = None,
    ) -> None:
        """`keys` are the values of `SEARCH_KEYS`; `state` is the folder of cache and activity."""
        self.config = config
        self.keys = {name: keys[name] for name in SEARCH_KEYS if keys.get(name)}
        self.state = state
        self.store = PageStore()
        self.outgoing = OutgoingGuard(mask, self._has_come_from_the_web)

    @cached_property
    def client(self) -> "WebClient":
        """The guarded client, with the cache of all runs."""
        from outrider.tools.web.cache import WebCache
        from outrider.tools.web.client import WebClient

        cache = None
        if self.state is not None and self.config.cache_bytes:
            cache = WebCache(self.state / "web-cache", self.config.cache_bytes)
        return WebClient(self.config, cache=cache, proxies=self._proxies())

    def _proxies(self) -> dict[str, str]:
        if not self.config.use_proxy:
            return {}
        from urllib.request import getproxies_environment

        return getproxies_environment()

    def _has_come_from_the_web(self, address: str) -> bool:
        for response in filter(None, map(self.store.find, self.store.ids())):
            for page in response.pages:
                # One that failed has only the address that the model gave: perhaps a refused one.
                if "error" not in page.about and (page.url == address or address in page.text):
                    return True
        return False

    @cached_property
    def reader(self) -> "PageReader":
        """What parses pages, in a process of its own."""
        from outrider.tools.web.reading import PageReader

        return PageReader()

    async def aclose(self) -> None:
        """Close the connections, and end what parses pages."""
        if "reader" in self.__dict__:
            await self.reader.aclose()
        if "client" in self.__dict__:
            await self.client.aclose()


def take_search_keys(env: MutableMapping[str, str]) -> dict[str, str]:
    """Take the search providers' keys out of this process's environment, and return them.

    No other tool of the child, and no command of it, finds them there.
    """
    return {name: env.pop(name) for name in SEARCH_KEYS if name in env}


def web_of(context: ToolContext) -> WebSession:
    """Return the web session of a child; raises `ToolFault` where it has none."""
    if context.web is None:
        raise ToolFault(ToolCode.NOT_AVAILABLE, "The web tools are not set up here")
    return context.web
