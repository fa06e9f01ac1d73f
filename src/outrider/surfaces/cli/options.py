"""The options of the commands that start a child, and the settings that follow from them."""

from argparse import Namespace

from outrider.protocol.errors import ErrorCode, Refusal
from outrider.surfaces.parser import CommandParser, time_span


def add_options(parser: CommandParser, *, main: bool = False) -> None:
    """Declare what `run`, `ask` and `chat` have in common, and what only a main agent takes."""
    add = parser.add_argument
    add("-m", "--model", metavar="MODEL", help="the model; 'outrider models' lists them")
    limit = "end it after this time: 90s, 5m, 1h30m"
    add("--timeout", metavar="TIME", type=time_span, dest="subagents.timeoutMs", help=limit)
    turns, cost = "end it after so many turns of the model", "end it at so many US dollars"
    add("--max-turns", metavar="N", dest="subagents.budget.maxTurns", help=turns)
    add("--max-cost", metavar="USD", dest="subagents.budget.maxCost", help=cost)
    parser.add_cwd()
    setting = "any of 'outrider config'; repeatable"
    add("--set", metavar="KEY=VALUE", action="append", default=[], help=setting)
    cold = "start cold, leave no warm process behind"
    add("--no-warm", action="store_const", const=0, dest="warm.keepMinutes", help=cold)
    if main:
        allow = "let it write and run commands without asking"
        add("--allow-write", action="store_true", help=allow)


def option_flags(arguments: Namespace) -> dict[str, object]:
    """Return the settings that the options stand for: their names in `arguments` are the keys."""
    flags: dict[str, object] = {}
    for setting in arguments.set:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            message = f"--set {setting!r} can't be read: write it as --set KEY=VALUE."
            raise Refusal(ErrorCode.INVALID_INPUT, message)
        flags[key.strip()] = value.strip()
    given = vars(arguments).items()
    return flags | {key: value for key, value in given if "." in key and value is not None}
