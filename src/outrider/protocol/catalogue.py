"""The names of tools as agent files write them, and as Outrider does."""

from difflib import get_close_matches

READ_ONLY_TOOLS = (
    "read",
    "grep",
    "find",
    "ls",
    "web_search",
    "fetch_content",
    "get_search_content",
    "convert_content",
    "lsp",
)
WRITING_TOOLS = ("write", "edit", "bash")
# convert_content takes addresses as well as files.
NETWORK_TOOLS = ("web_search", "fetch_content", "get_search_content", "convert_content")
DEFAULT_TOOLS = ("read", "grep", "find", "ls")
REPORT_BACK = "report_back"
"""The tool by which a child hands over an answer of the shape its caller asked for."""
NEVER_LISTED = ("subagent", REPORT_BACK)

_KNOWN = {name: name for name in (*READ_ONLY_TOOLS, *WRITING_TOOLS, *NEVER_LISTED)}
_ALIASES = {
    "notebookread": "read",
    "glob": "find",
    "multiedit": "edit",
    "notebookedit": "edit",
    "webfetch": "fetch_content",
    "websearch": "web_search",
    "task": "subagent",
    "agent": "subagent",
}


def canonical(name: str) -> str:
    """Return Outrider's name of a tool; one it doesn't know stays as it is."""
    folded = name.casefold()
    return _KNOWN.get(folded) or _ALIASES.get(folded, name)


def is_known(name: str) -> bool:
    """Return whether `name` is one of Outrider's own tools."""
    return name in _KNOWN


def nearest(name: str) -> str | None:
    """Return the tool that a misspelt `name` may have meant."""
    near = get_close_matches(
        name.casefold(), [*READ_ONLY_TOOLS, *WRITING_TOOLS, *_ALIASES], 1, 0.74
    )
    return canonical(near[0]) if near else None
