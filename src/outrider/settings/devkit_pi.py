"""The settings of devkit-pi, which Outrider's grew from, under the names that they have here."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from outrider.settings import places

RENAMED = {
    "enabled": "subagents.enabled",
    "web.maxResponseBytes": "web.maxBytes",
    "web.concurrency.maxConcurrent": "web.maxConcurrent",
    "web.searxng.baseUrl": "web.endpoints",
    "convertContent.enabled": "convert.enabled",
    "convertContent.timeoutMs": "convert.timeoutMs",
    "convertContent.maxResponseBytes": "convert.maxBytes",
    "lsp.tool.enabled": "lsp.enabled",
}
"""Its keys that have another name here."""
RENAMED_VALUES = {"ddgs": "duckduckgo"}
_GONE = re.compile(
    r"(web\.(brave|tavily|serper|openserp|searxng|cache|concurrency|connectionPool|debug|\w*jina\w*|"
    r"max(Results|Content\w+|Stored\w+))|convertContent|lsp\.hook|guards)\b",
    re.IGNORECASE,
)
"""Its keys that have no counterpart: a provider, for example, only needs its key here."""
_NO_PROVIDER = "openserp"


def config_file(env: Mapping[str, str]) -> Path:
    """Return where devkit-pi has its settings."""
    return places.home(env) / ".pi/agent/extensions/devkit-pi/config.json"


def advice_on_key(key: str) -> str | None:
    """Return what is to be said of a key, or a section, that devkit-pi has and Outrider hasn't."""
    under = [new for old, new in RENAMED.items() if f"{old}.".startswith(f"{key}.")]
    if under:
        return f"it is called {' and '.join(under)} here"
    return "devkit-pi has it, and nothing takes its place here" if _GONE.match(key) else None


def advice_on_value(value: str) -> str:
    """Return the same for a value."""
    new = RENAMED_VALUES.get(value)
    return f"; {value} is called {new} here" if new else ""


def translated(tree: Mapping[str, object]) -> Iterator[tuple[str, str, Any]]:
    """Yield each old key with its name here and the value; whether those exist is not checked."""
    for old, value in _leaves(tree):
        new = RENAMED.get(old, old)
        if old == "web.searxng.baseUrl":
            value = {"searxng": value}
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            value = [RENAMED_VALUES.get(one, one) for one in items if one != _NO_PROVIDER]
        elif isinstance(value, str):
            value = RENAMED_VALUES.get(value, value)
        if old != "lsp.tool.enabled" or value is False:  # it can't switch on what is off as a whole
            yield old, new, value


def _leaves(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(cast("Mapping[str, object]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
