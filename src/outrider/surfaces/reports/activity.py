"""The report `activity`: how often the web, documents and agents were used, and how well."""

import os
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import quantiles
from typing import Any

from outrider.protocol.envelope import ToolCode
from outrider.records.activity import ActivityLog
from outrider.settings.places import state_home
from outrider.surfaces.reports.logs import NOTHING
from outrider.surfaces.reports.report import Column, Report, Row, Section
from outrider.surfaces.text import count, duration

EXAMPLES = """\
'outrider logs' shows the single calls.

examples:
  outrider activity
  outrider activity --json | jq '.kinds.search.providers'
"""

NOT_ASKED = (ToolCode.NOT_AVAILABLE, ToolCode.NOT_AUTHORISED)
"""How a search provider ends that has no key, or a wrong one."""
Lines = Sequence[dict[str, Any]]


def report(arguments: Namespace) -> Report:
    """Return the sums of what is recorded."""
    lines = ActivityLog(state_home(os.environ)).lines()
    runs = [line for line in lines if line["kind"] == "run"]
    calls = [line for line in lines if line["kind"] != "run"]
    kinds = {
        kind: {**_sums(of_kind), "providers": _providers(of_kind)}
        for kind, of_kind in _grouped(calls, lambda line: line["kind"])
    }
    agents = {
        agent: {**_sums(of_agent), "outcomes": Counter(str(one.get("outcome")) for one in of_agent)}
        for agent, of_agent in _grouped(runs, lambda line: " ".join(map(str, line["what"])))
    }
    rows = [{"what": name, **sums} for name, sums in (*kinds.items(), *agents.items())]
    data = {"kinds": kinds, "agents": agents}
    return Report("Activity", data, (Section(COLUMNS, rows),), () if lines else (NOTHING,))


def _grouped(lines: Lines, key: Callable[[dict[str, Any]], str]) -> Iterable[tuple[str, Lines]]:
    groups: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[key(line)].append(line)
    return sorted(groups.items())


def _sums(lines: Lines) -> dict[str, Any]:
    succeeded = sum(line.get("code") == 0 for line in lines)
    times = sorted(line["ms"] for line in lines if line.get("ms") is not None)
    return {
        "calls": len(lines),
        "succeeded": succeeded,
        "successRate": round(succeeded / len(lines), 3),
        "medianMs": _share(times, 50),
        "p95Ms": _share(times, 95),
        "bytes": sum(line.get("bytes") or 0 for line in lines),
    }


def _share(times: list[float], percent: int) -> float | None:
    if len(times) < 2:
        return times[0] if times else None
    return round(quantiles(times, n=100, method="inclusive")[percent - 1], 1)


def _providers(lines: Lines) -> dict[str, Any]:
    """Return the sums of each provider: the calls that it answered, and those it failed."""
    named = [line for line in lines if line.get("provider")]
    for line in lines:
        others: dict[str, Any] = line.get("others") or {}
        failed = (name for name, code in others.items() if code not in NOT_ASKED)
        named += [{"provider": name, "code": others[name]} for name in failed]
    groups = _grouped(named, lambda line: line["provider"])
    return {name: _sums(of_provider) for name, of_provider in groups}


def _how(row: Row) -> str:
    parts: dict[str, Any] = row.get("providers") or row.get("outcomes") or {}
    return ", ".join(
        f"{part}: {value if isinstance(value, int) else count(value['calls'], 'call')}"
        for part, value in parts.items()
    )


COLUMNS = (
    Column("what", colour="cyan"),
    Column("calls", form="{:,}".format),
    Column("ok", "successRate", form="{:.0%}".format),
    Column("median", "medianMs", form=duration, optional=True),
    Column("95th", "p95Ms", form=duration, optional=True),
    Column("bytes", form="{:,}".format, optional=True),
    Column("how", _how, "dim"),
)
