"""The report `logs`: the calls of web and document tools, and the delegations, newest first."""

import os
from argparse import Namespace
from datetime import UTC, datetime

from outrider.records.activity import ActivityLog
from outrider.settings.places import state_home
from outrider.surfaces.parser import argument, flag, number
from outrider.surfaces.table import Column, Report, Row, Table
from outrider.surfaces.text import duration, local_time

EXAMPLES = """\
Secrets are masked, and URLs are reduced to host and path. Logs rotate at 2 MB;
the newest two files are kept.

examples:
  outrider logs --limit 5
  outrider logs --fetch --json | jq -r '.lines[] | select(.code != 0) | .what[]'
"""

KINDS = {"search": "searches", "fetch": "fetches", "convert": "conversions", "runs": "runs"}
NOTHING = "nothing recorded yet."
MAX_TIME = 1e11
ARGUMENTS = (
    *(flag(f"--{kind}", f"show only {KINDS[kind]}") for kind in KINDS),
    argument("--limit", metavar="N", type=number, default=50, help="show at most N lines (50)"),
)


def report(arguments: Namespace) -> Report:
    wanted = {kind.removesuffix("s") for kind in KINDS if getattr(arguments, kind)}
    lines = [
        {**line, "at": datetime.fromtimestamp(min(max(line["at"], 0), MAX_TIME), UTC).isoformat()}
        for line in reversed(ActivityLog(state_home(os.environ)).lines())
        if not wanted or line["kind"] in wanted
    ][: arguments.limit]
    return Report({"lines": lines}, (Table(COLUMNS, lines),), () if lines else (NOTHING,))


def _result(line: Row) -> str:
    code = {0: "ok", None: "no answer"}.get(line.get("code"), line.get("code"))
    failed = f", {line['failed']} failed" if line.get("failed") else ""
    return f"{line.get('outcome') or code}{failed}"


COLUMNS = (
    Column("when", "at", "dim", local_time),
    Column("kind", colour="cyan"),
    Column("result", _result),
    Column("took", "ms", form=duration, optional=True),
    Column("bytes", form="{:,}".format, optional=True),
    Column("by", "provider", "dim", optional=True),
    Column("run", colour="dim", optional=True),
    Column("what", lambda line: " ".join(map(str, line["what"]))),
)
