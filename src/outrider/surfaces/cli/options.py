"""The options of the commands that start a child, and the settings that follow from them."""

from argparse import Namespace

from outrider.protocol.errors import ErrorCode, Refusal
from outrider.surfaces.parser import CommandParser


def add_options(parser: CommandParser, *, main: bool = False) -> None:
    """Declare what `run`, `ask` and `chat` have in common, and what only a main agent takes."""
    add = parser.add_argument
    add("--model", metavar="NAME", help="the model, as provider:name or embedded")
    parser.add_cwd()
    setting = "any setting, for this run; 'outrider config' lists them; can be repeated"
    add("--set", metavar="KEY=VALUE", action="append", default=[], help=setting)
    add("--no-warm", action="store_true", help="start cold, and leave no warm process behind")
    if main:
        allow = "let the main agent write and run commands without asking"
        add("--allow-write", action="store_true", help=allow)


def option_flags(arguments: Namespace) -> dict[str, object]:
    """Return the settings of `--set` and `--no-warm`, by key."""
    flags: dict[str, object] = {}
    for setting in arguments.set:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            message = f"--set {setting!r} can't be read: write it as --set KEY=VALUE."
            raise Refusal(ErrorCode.INVALID_INPUT, message)
        flags[key.strip()] = value.strip()
    return flags | ({"warm.keepMinutes": 0} if arguments.no_warm else {})
