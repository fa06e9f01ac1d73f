"""The catalogue of tools: what each is called, what it can do, and which module brings it.

Permissions, listings, `doctor`, the child and the docs read these facts here and nowhere else.
"""

from collections.abc import Iterable
from functools import partial

from outrider.protocol.data import frozen
from outrider.protocol.text import most_alike

SUBAGENT = "subagent"  # the tool by which a host's model delegates
REPORT_BACK = "report_back"
"""The tool by which a child hands over an answer of the shape that its caller asked for."""


@frozen
class CatalogueEntry:
    """One tool: its name, what it can do, and where its code is."""

    name: str
    module: str  # the module that brings it
    writes: bool = False  # changes files or runs commands: never given to a read-only child
    network: bool = False
    """Reaches the network: not given to a repository's agent that the user doesn't trust."""
    runs_commands: bool = False  # starts programs that a model or a repository chose
    default: bool = False  # given to an agent that lists no tools
    aliases: tuple[str, ...] = ()  # what agent files of other systems call it, in lower case
    setting: str | None = None  # the setting that switches it off
    keys: tuple[str, ...] = ()
    """The variables with its services' keys: only a child that has the tool gets them."""


SEARCH_KEYS = (
    "TAVILY_API_KEY", "BRAVE_SEARCH_API_KEY", "SERPER_API_KEY", "EXA_API_KEY", "SEARXNG_URL",
)  # fmt: skip
_FILES = "outrider.tools.files"
_WEB = "outrider.tools.web"
_online = partial(CatalogueEntry, network=True, setting="web.enabled")
_writing = partial(CatalogueEntry, writes=True)
CATALOGUE: dict[str, CatalogueEntry] = {
    entry.name: entry
    for entry in (
        CatalogueEntry("read", f"{_FILES}.read", default=True, aliases=("notebookread",)),
        CatalogueEntry("grep", f"{_FILES}.grep", default=True),
        CatalogueEntry("find", f"{_FILES}.find", default=True, aliases=("glob",)),
        CatalogueEntry("ls", f"{_FILES}.ls", default=True),
        _online("web_search", f"{_WEB}.web_search", aliases=("websearch",), keys=SEARCH_KEYS),
        _online("fetch_content", f"{_WEB}.fetch_content", aliases=("webfetch",)),
        _online("get_search_content", f"{_WEB}.get_search_content"),
        # It takes addresses as well as files.
        _online("convert_content", "outrider.tools.convert_content", setting="convert.enabled"),
        CatalogueEntry("lsp", "outrider.tools.lsp.lsp", setting="lsp.enabled"),
        CatalogueEntry("git", "outrider.tools.git"),
        _writing("write", f"{_FILES}.write"),
        _writing("edit", f"{_FILES}.edit", aliases=("multiedit", "notebookedit")),
        _writing("bash", "outrider.tools.bash", runs_commands=True),
    )
}
NEVER_GIVEN = (SUBAGENT, REPORT_BACK)
"""Names that no agent file can list: a child never delegates, and a report needs a schema."""
DEFAULT_TOOLS = tuple(entry.name for entry in CATALOGUE.values() if entry.default)

_NAMES = {
    **{name: name for name in (*CATALOGUE, *NEVER_GIVEN)},
    **{alias: entry.name for entry in CATALOGUE.values() for alias in entry.aliases},
    "task": SUBAGENT,
    "agent": SUBAGENT,
}


def canonical(name: str) -> str:
    """Return Outrider's name of a tool; one it doesn't know stays as it is."""
    return _NAMES.get(name.casefold(), name)


def is_own(name: str) -> bool:
    """Return whether `name` is one of Outrider's own tools, which nobody else can define."""
    return name in CATALOGUE or name in NEVER_GIVEN


def nearest(name: str) -> str | None:
    """Return the tool that a misspelt `name` may have meant."""
    known = [known for known, tool in _NAMES.items() if tool in CATALOGUE]
    near = most_alike(name.casefold(), known, 0.74)
    return canonical(near[0]) if near else None


def run_commands(names: Iterable[str]) -> bool:
    """Return whether one of these tools may start a program; a tool of the user's own may."""
    return any(name not in CATALOGUE or CATALOGUE[name].runs_commands for name in names)


def reach_network(names: Iterable[str]) -> bool:
    """Return whether one of these tools is a web tool of ours."""
    return any(name in CATALOGUE and CATALOGUE[name].network for name in names)


def keys_of(name: str) -> tuple[str, ...]:
    """Return the variables with keys that a tool needs."""
    return CATALOGUE[name].keys if name in CATALOGUE else ()
