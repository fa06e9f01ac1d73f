"""What the web tools of one child share: its client, what it has found, and what it has read."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from outrider.masking import Masker
from outrider.protocol.tool_catalogue import SEARCH_KEYS
from outrider.settings.keys import WebConfig
from outrider.tools import ToolCode, ToolContext, ToolFault
from outrider.tools.web.leaks import OutgoingGuard

if TYPE_CHECKING:
    from outrider.processes.cell_start import Cells
    from outrider.tools.web.client import WebClient
    from outrider.tools.web.page_reader import PageReader


@dataclass(eq=False)
class StoredPage:
    """One page or result, with all of its text."""

    url: str
    title: str
    text: str = ""
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else is known: the address asked for, the fault that kept it from being fetched."""


class WebSession:
    """One child's way to the web. What is heavy is loaded when it is first needed."""

    def __init__(
        self,
        config: WebConfig,
        *,
        keys: Mapping[str, str],
        mask: Masker,
        cells: "Cells | None" = None,
    ) -> None:
        """`keys` are the values of `SEARCH_KEYS`."""
        self.config = config
        self.keys = {name: keys[name] for name in SEARCH_KEYS if keys.get(name)}
        self._cells = cells
        self.responses: dict[str, list[StoredPage]] = {}
        """The pages that each call brought, whole, by the id that the model is told."""
        self.outgoing = OutgoingGuard(mask, self._has)
        self.remember = self.outgoing.remember

    def keep(self, pages: list[StoredPage]) -> str:
        """Return the id under which these pages can be asked for again in this run."""
        response_id = uuid4().hex[:8]
        self.responses[response_id] = pages
        return response_id

    def _has(self, address: str) -> bool:
        """Return whether an address stands in what came from the web, or is where it came from."""
        pages = (page for response in self.responses.values() for page in response)
        # One that failed has only the address that the model gave: perhaps a refused one.
        came = (page for page in pages if "error" not in page.about)
        return any(page.url == address or address in page.text for page in came)

    @cached_property
    def client(self) -> "WebClient":
        from outrider.tools.web.client import WebClient

        proxies: dict[str, str] = {}
        if self.config.use_proxy:
            from urllib.request import getproxies_environment

            proxies = getproxies_environment()
        return WebClient(self.config, proxies=proxies)

    @cached_property
    def reader(self) -> "PageReader":
        """What parses pages, in a process of its own."""
        from outrider.tools.web.page_reader import PageReader

        return PageReader(self._cells)

    async def aclose(self) -> None:
        """Close the connections, and end what parses pages, where these were ever used."""
        for name in {"reader", "client"} & self.__dict__.keys():
            await getattr(self, name).aclose()


def take_search_keys(env: MutableMapping[str, str]) -> dict[str, str]:
    """Take the search keys out of the environment, so that no other tool or command sees them."""
    return {name: env.pop(name) for name in SEARCH_KEYS if name in env}


def web_of(context: ToolContext) -> WebSession:
    """Return the web session of a child; raises `ToolFault` where it has none."""
    if not isinstance(context.web, WebSession):
        raise ToolFault(ToolCode.NOT_AVAILABLE, "The web tools aren't set up here")
    return context.web
