"""What was asked of the web and of documents, and what was delegated: one line each, for people.

All processes of a user append to one file. A line has nothing unmasked, and of an address only its
host and path.
"""

import fcntl
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any
from urllib.parse import urlsplit

from outrider.protocol import jsonl
from outrider.protocol.data import as_list, as_object
from outrider.protocol.envelope import ToolCode
from outrider.protocol.results import SingleResult
from outrider.records.runs import reading

KINDS = {
    "web_search": "search",
    "fetch_content": "fetch",
    "get_search_content": "stored",
    "convert_content": "convert",
}
"""The tools whose calls are kept, and what their lines are called; a delegation's is `run`."""
MAX_FILE_BYTES = 2 << 20
MAX_WORDS = 200
MAX_SUBJECTS = 20
_NOT_ASKED = (ToolCode.NOT_AVAILABLE, ToolCode.NOT_AUTHORISED)  # no key, or a wrong one
_FIELDS: dict[str, Any] = {
    "at": int | float,
    "kind": str,
    "what": list,
    "ms": int | float | None,
    **dict.fromkeys(("code", "bytes", "failed"), int | None),
    "others": (dict, NoneType),
    **dict.fromkeys(("run", "provider", "outcome"), str | None),
}
"""What each line has, of these types; where one isn't so, it is no line of ours."""


class ActivityLog:
    """The activity of all processes that share a state folder, in two files at most."""

    def __init__(self, state: Path) -> None:
        self._path = state / "activity.jsonl"

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line. A disk that is full, or a folder that is closed, costs only the line."""
        data = jsonl.encode({"at": round(time.time(), 3), **line}) + b"\n"
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                descriptor = os.open(self._path, flags, 0o600)
            except FileNotFoundError:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = os.open(self._path, flags, 0o600)
            try:
                written = os.write(descriptor, data)  # at once: other processes append as well
                if written < len(data):  # the disk is full: half a line would spoil the next
                    os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                if os.fstat(descriptor).st_size > MAX_FILE_BYTES:
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                    # Another process may have replaced it while this one waited.
                    if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                        os.replace(self._path, self._older)
            finally:
                os.close(descriptor)

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines, oldest first, without what is no line; `Refusal` if they are closed."""
        found: list[dict[str, Any]] = []
        for path in (self._older, self._path):
            with reading(path):
                for line in path.read_bytes().splitlines():
                    data = jsonl.decoded_object(line)
                    if all(isinstance(data.get(name), kind) for name, kind in _FIELDS.items()):
                        found.append(data)
        return found

    @property
    def _older(self) -> Path:
        return self._path.with_name("activity.1.jsonl")


def of_call(tool: str, args: Any, envelope: Any, run_id: str | None = None) -> dict[str, Any]:
    """Return the line of a call of one of `KINDS`; without an envelope it was never answered."""
    answer = as_object(envelope)
    data, meta = as_object(answer.get("data")), as_object(answer.get("meta"))
    lists = (data.get(name) for name in ("pages", "queries", "searches", "results"))
    entries = [as_object(one) for entries in lists for one in as_list(entries)]
    others = [as_object(other) for one in entries for other in as_list(one.get("others"))]
    sizes = ([one.get("bytes"), one.get("characters"), 0] for one in (data, *entries))
    return {
        "kind": KINDS[tool],
        "tool": tool,
        "run": run_id,
        "what": _subjects(as_object(args)),
        "provider": _first(str, (one.get("provider") for one in (data, *entries))),
        "others": {str(one.get("provider")): _first(int, [one.get("code")]) for one in others},
        "code": _first(int, [answer.get("code")]),
        "failed": sum(1 for one in entries if one.get("error")),
        "ms": _first((int, float), [meta.get("execution_time_ms")]),
        "bytes": sum(_first(int, size) for size in sizes),
    }


def of_run(result: SingleResult, run_id: str) -> dict[str, Any]:
    return {
        "kind": "run",
        "run": run_id,
        "what": [result.agent],
        "provider": result.model,
        "outcome": str(result.outcome),
        "code": result.exit_code,
        "ms": result.duration_ms,
        "tokens": result.usage.tokens,
        "cost": result.usage.cost if result.usage.cost_known else None,
    }


def activity_summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the sums of calls by `kinds`, and of runs by `agents`, `models` and `days`."""
    calls = _grouped((line["kind"], line) for line in lines if line["kind"] != "run")
    runs = _grouped((str(line["what"][0]), line) for line in lines if line["kind"] == "run")
    kinds = {kind: {**_sums(found), "providers": _providers(found)} for kind, found in calls}
    agents = {
        agent: {**_sums(found), "outcomes": Counter(str(one.get("outcome")) for one in found)}
        for agent, found in runs
    }
    models = _grouped((str(line.get("provider")), line) for _, found in runs for line in found)
    days = _grouped((_day(line["at"]), line) for _, found in runs for line in found)
    by = {"models": models, "days": days}
    sums = {name: {one: _sums(found) for one, found in groups} for name, groups in by.items()}
    return {"kinds": kinds, "agents": agents, **sums}


def _day(at: float) -> str:
    from datetime import datetime  # late: no run needs it

    with suppress(ValueError, OverflowError, OSError):  # a line may hold any number
        return f"{datetime.fromtimestamp(at):%Y-%m-%d}"
    return "unknown"


def _grouped(lines: Iterable[tuple[str, Any]]) -> list[tuple[str, list[Any]]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for name, line in lines:
        groups[name].append(line)
    return sorted(groups.items())


def _sums(lines: list[Any]) -> dict[str, Any]:
    from statistics import quantiles

    succeeded = sum(line.get("code") == 0 for line in lines)
    times = [line["ms"] for line in lines if line.get("ms") is not None]
    # Twice, for there must be two of them at least.
    shares = quantiles(times * 2, n=100, method="inclusive") if times else []
    return {
        "calls": len(lines),
        "succeeded": succeeded,
        "successRate": round(succeeded / len(lines), 3),
        "medianMs": round(shares[49], 1) if shares else None,
        "p95Ms": round(shares[94], 1) if shares else None,
        "bytes": sum(line.get("bytes") or 0 for line in lines),
        "tokens": sum(_first(int, [line.get("tokens"), 0]) for line in lines),
        "cost": sum(_first((int, float), [line.get("cost"), 0.0]) for line in lines),
    }


def _providers(lines: list[Any]) -> dict[str, Any]:
    """Return the sums of each provider: the calls that it answered, and those it failed."""
    named: list[tuple[str, Any]] = [(one["provider"], one) for one in lines if one.get("provider")]
    for name, code in (other for line in lines for other in as_object(line.get("others")).items()):
        named += [(name, {"code": code})] if code not in _NOT_ASKED else []
    return {name: _sums(found) for name, found in _grouped(named)}


def host_and_path(address: str) -> str:
    """Return an address without its query, its fragment and whatever stands before its host."""
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return "an address that can't be read"
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"[:MAX_WORDS]


def _subjects(args: dict[str, Any]) -> list[str]:
    """Return what a call is about: queries, paths, and addresses that are cut short."""
    said = [*map(args.get, ("query", "path", "responseId")), *as_list(args.get("queries"))]
    addresses = [args.get("url"), *as_list(args.get("urls"))]
    words = [one[:MAX_WORDS] for one in said if isinstance(one, str)]
    words += [host_and_path(one) for one in addresses if isinstance(one, str)]
    return words[:MAX_SUBJECTS]


def _first(kind: type | tuple[type, ...], values: Iterable[Any]) -> Any:
    return next((one for one in values if isinstance(one, kind)), None)
