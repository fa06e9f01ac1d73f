"""Reading a command's arguments. A bad call ends in one line, never in a page of usage."""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.text import as_sentence, most_alike
from outrider.settings.quantities import SettingError, milliseconds

_HELP = partial(argparse.RawDescriptionHelpFormatter, max_help_position=28)
_HOW_OFTEN = {"?": "[{}]", "*": "[{} …]", "+": "{} …"}
_REQUIRED = "the following arguments are required: "


def bad_call(message: str, command: str = "") -> Refusal:
    """Return the refusal of a call that can't be understood; it names the help to read."""
    help_command = f"outrider {command} --help" if command else "outrider --help"
    return Refusal(ErrorCode.INVALID_INPUT, f"{as_sentence(message)} Try '{help_command}'.")


def number(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise argparse.ArgumentTypeError(f"{given!r} is not a whole number")
    return int(given)


def time_span(given: str) -> str:
    """Return a duration with its unit; a bare number counts seconds."""
    try:
        milliseconds(given, "s")
        return given if given.strip()[-1:].isalpha() else f"{given.strip()}s"
    except SettingError as bad:
        raise argparse.ArgumentTypeError(str(bad)) from None


def argument(*names: str, **options: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return an argument of a command, as argparse takes it."""
    return names, options


def flag(name: str, meaning: str, **options: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return argument(name, action="store_true", help=meaning, **options)


CWD = argument("--cwd", metavar="DIR", help="use DIR instead of the current folder")


class CommandParser(argparse.ArgumentParser):
    """A parser for a command's module; it raises `Refusal` instead of printing usage."""

    def __init__(self, command: str, summary: str, module: Any) -> None:
        super().__init__(
            prog=f"outrider {command}",
            description=summary,
            epilog=module.EXAMPLES,
            formatter_class=partial(_HELP, width=80),  # or each argument asks for the terminal's
            allow_abbrev=False,
            add_help=False,
        )
        self._positionals.title = self._optionals.title = None
        self.command = command
        self.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
        self.add_argument("--json", action="store_true", help="print JSON")
        for names, options in module.ARGUMENTS:
            self.add_argument(*names, **options)

    @property
    def options(self) -> dict[str, argparse.Action]:
        """Every option there is, for suggestions and completion."""
        return {string: action for action in self._actions for string in action.option_strings}

    def expected(self, given: Sequence[str]) -> argparse.Action | None:
        """Return what comes after the words that are given: an option's value, or what is next."""
        words, places = iter(given), [one for one in self._actions if not one.option_strings]
        for word in words:
            option = self.options.get(word)
            if option is None and places and places[0].nargs not in ("*", "+"):
                places.pop(0)
            if option and option.nargs != 0 and next(words, None) is None:
                return option
        return places[0] if places else None

    def format_help(self) -> str:
        """Return the help; it fits a screen."""
        places = [one for one in self._actions if not one.option_strings]
        names = ((one.nargs, one.metavar or one.dest.upper()) for one in places)
        call = (_HOW_OFTEN.get(str(often), "{}").format(name) for often, name in names)
        self.formatter_class = _HELP
        self.usage = " ".join([self.prog, *call, "[OPTION …]"])
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        if message.startswith(_REQUIRED):
            names = message.removeprefix(_REQUIRED).replace(", ", " and ")
            message = f"{self.command} needs {names}"
        raise bad_call(message, self.command)

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the arguments, or raise `Refusal`."""
        values, unknown = self.parse_known_args(arguments)
        if unknown:  # or told too late: an option between two words ends the words for argparse
            values, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            raise bad_call(self._unknown(unknown), self.command)
        return values

    def _unknown(self, arguments: list[str]) -> str:
        option = next((one for one in arguments if one.startswith("-") and one != "--"), None)
        if option is None:
            hint = "; put the task in quotes" if self.command == "run" else ""
            return f"unexpected argument {arguments[0]!r}{hint}"
        name = option.partition("=")[0]
        near = most_alike(name, self.options)
        return f"unknown option {name}" + (f"; did you mean {near[0]}?" if near else "")
