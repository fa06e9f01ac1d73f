"""The options of the commands that start a child, and the settings that follow from them."""

from argparse import ArgumentTypeError, Namespace

from outrider.surfaces.parser import CWD, argument, flag, time_span


def _setting(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals or not key.strip():
        raise ArgumentTypeError(f"{given!r} is not a setting: write KEY=VALUE")
    return key.strip(), value.strip()


_TIME = "stop after this long: 90s, 5m, 1h30m"
_TURNS, _COST = "stop after N model turns", "stop when the cost reaches this many US dollars"
_SET = "change a setting for this run; repeatable"
_COLD = "start cold and leave no warm process behind"
_ALLOW = "write files and run commands without asking"
_NOTIFY = "with --bg: run this command at its end"
BACKGROUND = (
    flag("--bg", "print the run's id and let the run go on by itself"),
    argument("--notify", metavar="CMD", help=_NOTIFY),
)
OPTIONS = (
    argument("-m", "--model", metavar="MODEL", help="the model; 'outrider models' lists them"),
    argument("--timeout", metavar="TIME", type=time_span, dest="subagents.timeoutMs", help=_TIME),
    argument("--max-turns", metavar="N", dest="subagents.budget.maxTurns", help=_TURNS),
    argument("--max-cost", metavar="USD", dest="subagents.budget.maxCost", help=_COST),
    CWD,
    argument("--set", metavar="KEY=VALUE", action="append", type=_setting, default=[], help=_SET),
    argument("--no-warm", action="store_const", const=0, dest="warm.keepMinutes", help=_COLD),
)
"""What `run`, `ask` and `chat` have in common."""
MAIN_OPTIONS = (*OPTIONS, flag("--allow-write", _ALLOW))


def option_flags(arguments: Namespace) -> dict[str, object]:
    """Return the settings that the options stand for: their names in `arguments` are the keys."""
    given = vars(arguments).items()
    own = {key: value for key, value in given if "." in key and value is not None}
    return dict(arguments.set) | own


def main_flags(arguments: Namespace) -> dict[str, object]:
    """Return the same for the main agent, whose model is a setting too."""
    return option_flags(arguments) | ({"model": arguments.model} if arguments.model else {})
