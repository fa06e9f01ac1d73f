"""The options of the commands that start a child, and the settings that follow from them."""

from argparse import ArgumentTypeError, Namespace

from outrider.settings.layers import FlagValue
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
_WRITE = "let agents that aren't readonly change files, in a layer that you land later"
_NOTIFY = "with --bg: run this command at its end"
BACKGROUND = (
    flag("--bg", "print the run's id and let the run go on by itself"),
    argument("--notify", metavar="CMD", help=_NOTIFY),
)
WRITING = (
    argument("--check", metavar="CMD", help="a command that has to pass before the task is done"),
    flag("--write", _WRITE),
)
OPTIONS = (
    argument("-m", "--model", metavar="MODEL", help="the model; 'outrider models' lists them"),
    argument("--timeout", metavar="TIME", type=time_span, help=_TIME),
    argument("--max-turns", metavar="N", help=_TURNS),
    argument("--max-cost", metavar="USD", help=_COST),
    CWD,
    argument("--set", metavar="KEY=VALUE", action="append", type=_setting, default=[], help=_SET),
    flag("--no-warm", _COLD),
)
"""What `run`, `ask` and `chat` have in common."""
_KEYS = {
    "timeout": "subagents.timeoutMs",
    "max_turns": "subagents.budget.maxTurns",
    "max_cost": "subagents.budget.maxCost",
}
MAIN_OPTIONS = (*OPTIONS, flag("--allow-write", _ALLOW))


def option_flags(arguments: Namespace) -> dict[str, object]:
    """Return the settings that the options stand for."""
    chosen: dict[str, object] = dict(arguments.set)
    for name, key in _KEYS.items():
        if (value := getattr(arguments, name)) is not None:
            chosen[key] = FlagValue(value, f"--{name.replace('_', '-')} {value}")
    return chosen | ({"warm.keepMinutes": 0} if arguments.no_warm else {})


def main_flags(arguments: Namespace) -> dict[str, object]:
    """Return the same for the main agent, whose model is a setting too."""
    model = FlagValue(arguments.model, f"-m {arguments.model}") if arguments.model else None
    return option_flags(arguments) | ({"model": model} if model else {})
