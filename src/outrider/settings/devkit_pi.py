"""The settings of devkit-pi, which Outrider's grew from, under the names that they have here."""

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


def config_file(env: Mapping[str, str]) -> Path:
    return places.home(env) / ".pi/agent/extensions/devkit-pi/config.json"


def advice_on_key(key: str) -> str | None:
    """Return what is to be said of a key, or a section, that devkit-pi has and Outrider hasn't."""
    under = [new for old, new in RENAMED.items() if f"{old}.".startswith(f"{key}.")]
    return f"it is called {' and '.join(under)} here" if under else None


def translated(tree: Mapping[str, object]) -> Iterator[tuple[str, str, Any]]:
    """Yield each old key with its name here and the value; whether those exist is not checked."""
    for old, value in _leaves(tree):
        is_address = old == "web.searxng.baseUrl"
        yield old, RENAMED.get(old, old), {"searxng": value} if is_address else value


def _leaves(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(cast("Mapping[str, object]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
