"""The report `activity`: how often the web, documents and agents were used, and how well."""

import os
from argparse import Namespace
from typing import Any

from outrider.records.activity import ActivityLog, activity_summary
from outrider.settings.places import state_home
from outrider.surfaces.reports.logs import NOTHING
from outrider.surfaces.table import Column, Report, Row, Table
from outrider.surfaces.text import count, duration

EXAMPLES = """\
Run 'outrider logs' to see each call.

examples:
  outrider activity
  outrider activity --json | jq '.days[].cost'
"""
ARGUMENTS = ()


def report(arguments: Namespace) -> Report:
    sums = activity_summary(ActivityLog(state_home(os.environ)).lines())
    tables = [
        Table(COLUMNS, [{"what": name, **one} for name, one in group.items()], title)
        for title, group in sums.items()
        if group
    ]
    return Report(sums, tuple(tables), () if tables else (NOTHING,))


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
    Column("tokens", form="{:,}".format, optional=True),
    Column("cost", form="${:,.4f}".format),
    Column("how", _how, "dim"),
)
