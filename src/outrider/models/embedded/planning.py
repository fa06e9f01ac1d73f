"""Which tools to call next: search, read the best places, and follow what was found once."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from outrider.models.embedded.evidence import PlannedCall, found_places
from outrider.models.embedded.task import Task

Made = Sequence[PlannedCall]
_MAX_READ = 3
_MAX_FILES = 5
_MAX_PAGES = 3
_ABOVE = 15
_WINDOW = 60
_MAX_QUERY = 300
_CODE = re.compile(r"\.(py|pyi|[cm]?[jt]sx?|go|rs|c|h|cc|cpp|hpp|java)$")


def next_calls(task: Task, made: Made, rounds: int, tools: frozenset[str]) -> list[PlannedCall]:
    """Return what to call in the next round; nothing where all is read."""
    plans = (_opening, _closer, _further)
    planned = plans[rounds](task, made, tools) if rounds < len(plans) else ()
    return [call for call in planned if call.name in tools]


def _opening(task: Task, made: Made, tools: frozenset[str]) -> Iterator[PlannedCall]:
    if task.role == "researcher":
        query = " ".join(task.about.split())[:_MAX_QUERY] or "?"
        search = PlannedCall("web_search", {"query": query, "numResults": 5})
        yield PlannedCall("fetch_content", {"urls": list(task.urls)}) if task.urls else search
    for path, added in list(task.changes.items())[:_MAX_FILES]:
        yield from _diagnosed(path)
        yield _read(path, max(1, added[0] - _ABOVE), added[-1] - added[0] + _WINDOW)
    if task.about.strip() and not task.changes:
        yield PlannedCall("find", {"about": task.about, "limit": 8})
    for path, _, name in task.changed[:_MAX_READ]:
        yield from _references({"path": path, "symbol": name}, tools)
    if "find" not in tools:
        yield from (_read(path, 1, _WINDOW) for path in task.paths)


def _closer(task: Task, made: Made, tools: frozenset[str]) -> Iterator[PlannedCall]:
    if task.role == "researcher":
        searched = [call.data for call in made if call.name == "web_search" and call.data]
        parts = [part for data in searched for part in data["searches"]]
        found = [one["url"] for part in parts for one in part["results"]]
        if found:
            yield PlannedCall("fetch_content", {"urls": found[:_MAX_PAGES]})
        return
    found = found_places(made)
    for place in found[:_MAX_READ]:
        yield _read(place["path"], max(1, place["startLine"] - _ABOVE), _WINDOW)
        if task.role in ("reviewer", "tester") and not task.changes:
            yield from _diagnosed(place["path"])
    if not found and not task.changes:
        yield PlannedCall("ls", {"depth": 2, "limit": 60})
        yield PlannedCall("find", {"pattern": "README*", "limit": 5})
    elif task.changes:
        yield from _by_text(made)
    elif task.wants_uses or task.role != "explorer":
        yield from _followed(found, tools)


def _further(task: Task, made: Made, tools: frozenset[str]) -> Iterator[PlannedCall]:
    listed = [call for call in made if call.name == "find" and "pattern" in call.arguments]
    paths: list[str] = [path for call in listed if call.data for path in call.data["files"]]
    for path in sorted(paths, key=lambda one: one.count("/"))[:1]:
        yield _read(path, 1, 30)
    yield from _by_text(made)


def _by_text(made: Made) -> Iterator[PlannedCall]:
    """Yield the search for names that no language server knows the uses of."""
    asked = [call for call in made if call.arguments.get("action") == "references"]
    if failed := [call.arguments["symbol"] for call in asked if not call.data]:
        yield _grep(failed)


def _followed(found: Sequence[dict[str, str]], tools: frozenset[str]) -> Iterator[PlannedCall]:
    """Yield the search for uses of the best definitions."""
    best = next((place for place in found if place["definition"]), None)
    if best:
        place = {"path": best["path"], "line": best["startLine"]}
        yield from _references(place | {"symbol": best["definition"].split(".")[-1]}, tools)


def _references(place: dict[str, Any], tools: frozenset[str]) -> Iterator[PlannedCall]:
    """Yield the search for what uses a symbol: by a language server, or else by its text."""
    if "lsp" in tools and _CODE.search(place["path"]):
        yield PlannedCall("lsp", {"action": "references", **place})
    else:
        yield _grep([place["symbol"]])


def _grep(names: Sequence[str]) -> PlannedCall:
    words = "|".join(re.escape(re.split(r"\W+", name)[-1]) for name in names)
    return PlannedCall("grep", {"pattern": rf"\b({words})\b", "limit": 100})


def _diagnosed(path: str) -> Iterator[PlannedCall]:
    if _CODE.search(path):
        yield PlannedCall("lsp", {"action": "diagnostics", "path": path})


def _read(path: str, offset: int, limit: int) -> PlannedCall:
    return PlannedCall("read", {"path": path, "offset": offset, "limit": min(limit, 400)})
