"""`outrider doctor`: tries what a delegation needs, and says what it found."""

from argparse import Namespace
from collections.abc import Sequence

from outrider.surfaces.cli import output
from outrider.surfaces.cli.checks import Check, Status, all_checks
from outrider.surfaces.cli.parser import CommandParser, folder_of
from outrider.surfaces.cli.text import one_line

EXAMPLES = """\
Nothing is guessed: ripgrep is run, a file is written, a child is started and does a task with
the embedded model. A check that fails is a finding, not a failure of the command: the exit
code is 0 whenever the report is whole. Use --json to decide on single checks.

examples:
  outrider doctor
  outrider doctor --json | jq '.checks[] | select(.status != "ok")'
"""

COLOURS = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red"}


def configure(parser: CommandParser) -> None:
    """Declare the arguments of `doctor`."""
    parser.add_cwd()


def execute(arguments: Namespace) -> int:
    """Check everything, and report."""
    folder = folder_of(arguments)
    done: list[Check] = []
    for check in all_checks(folder):
        done.append(check)
        if not arguments.json:
            status = output.coloured(f"{check.status:<4}", COLOURS[check.status])
            output.write(f"{status}  {check.name}: {one_line(check.message)}\n")
            output.flush()
    if arguments.json:
        checks = [
            {"name": check.name, "status": check.status, "message": check.message} for check in done
        ]
        output.write_json({"status": _worst(done), "checks": checks})
    return 0


def _worst(checks: Sequence[Check]) -> Status:
    found = {check.status for check in checks}
    return next(status for status in (Status.FAIL, Status.WARN, Status.OK) if status in found)
