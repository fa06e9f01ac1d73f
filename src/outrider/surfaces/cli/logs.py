"""`outrider logs`: the calls of web and document tools, and the delegations, newest first."""

import os
from argparse import Namespace
from datetime import UTC, datetime
from typing import Any

from outrider.records.activity import ActivityLog
from outrider.settings.places import state_home
from outrider.surfaces.cli import output
from outrider.surfaces.cli.parser import CommandParser, bad_call
from outrider.surfaces.cli.text import duration

EXAMPLES = """\
Secrets are masked, and of an address only host and path are kept. The two newest
files of 2 MB each are kept, for all processes together.

examples:
  outrider logs --limit 5
  outrider logs --fetch --json | jq -r '.lines[] | select(.code != 0) | .what[]'
"""

KINDS = {"search": "searches", "fetch": "fetched pages", "convert": "documents", "runs": "runs"}
DEFAULT_LIMIT = 50
MAX_TIME = 1e11
COLUMNS = ("when", "kind", "result", "took", "bytes", "by", "run", "what")
COLOURS = ("dim", "cyan", None, None, None, "dim", "dim", None)


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `logs`."""
    for kind, what in KINDS.items():
        parser.add_argument(f"--{kind}", action="store_true", help=f"only {what}")
    parser.add_argument("--limit", metavar="N", default=str(DEFAULT_LIMIT), help="at most N lines")


def execute(arguments: Namespace) -> None:
    """List what was done."""
    if not (arguments.limit.isascii() and arguments.limit.isdigit() and len(arguments.limit) < 10):
        raise bad_call(f"--limit {arguments.limit!r} is not a number", "logs")
    wanted = {kind.removesuffix("s") for kind in KINDS if getattr(arguments, kind)}
    lines = [
        line
        for line in reversed(ActivityLog(state_home(os.environ)).lines())
        if not wanted or line["kind"] in wanted
    ][: int(arguments.limit)]
    if arguments.json:
        output.write_json({"lines": [{**line, "at": _time(line).isoformat()} for line in lines]})
    elif lines:
        output.write_table(COLUMNS, map(_cells, lines), colours=COLOURS)
    else:
        output.say("nothing has been recorded yet.")


def _time(line: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(min(max(line["at"], 0), MAX_TIME), UTC)


def _cells(line: dict[str, Any]) -> list[str]:
    took, size, failed = (line.get(name) for name in ("ms", "bytes", "failed"))
    code = {0: "ok", None: "no answer"}.get(line.get("code"), line.get("code"))
    result = str(line.get("outcome") or code)
    return [
        f"{_time(line).astimezone():%Y-%m-%d %H:%M:%S}",
        line["kind"],
        f"{result}, {failed} failed" if failed else result,
        "" if took is None else duration(took),
        "" if size is None else f"{size:,}",
        line.get("provider") or "",
        line.get("run") or "",
        " ".join(map(str, line["what"])),
    ]
