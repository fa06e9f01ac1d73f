"""The text forms of envelopes: long for the model, short for a line in the live view."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from outrider.protocol.envelope import is_success, meaning_of

MAX_SHORT_CHARACTERS = 160

Arguments = Mapping[str, Any]
Form = Callable[[Any, Arguments], str]
"""A text made of an envelope's data and the arguments of the call."""


@dataclass(frozen=True, slots=True)
class Formatter:
    """How one tool's data reads; what it leaves out or gets wrong takes the default form."""

    long: Form | None = None
    short: Form | None = None


class ResultFormatter:
    """Turns any envelope into text, and never raises."""

    def __init__(self, formatters: Mapping[str, Formatter] | None = None) -> None:
        self._formatters = dict(formatters or {})

    def long(self, name: str, arguments: Arguments, envelope: Mapping[str, Any]) -> str:
        """Return what the model sees of a tool's answer."""
        data = envelope.get("data")
        if is_success(envelope):
            return self._form("long", name, data, arguments)
        line = error_line(envelope)
        return line if data is None else f"{line}\n\n{self._form('long', name, data, arguments)}"

    def short(self, name: str, arguments: Arguments, envelope: Mapping[str, Any]) -> str:
        """Return one line for people who watch: the call and its result."""
        if is_success(envelope):
            text = self._form("short", name, envelope.get("data"), arguments)
        else:
            text = f"{name} → {error_line(envelope)}"
        line = " ".join(text.split())
        return line if len(line) <= MAX_SHORT_CHARACTERS else line[: MAX_SHORT_CHARACTERS - 1] + "…"

    def _form(self, which: str, name: str, data: Any, arguments: Arguments) -> str:
        formatter = self._formatters.get(name)
        form: Form | None = getattr(formatter, which, None)
        if form is not None:
            try:
                text: object = form(data, arguments)
            except BaseException:  # a formatter is foreign code: the default stands in for it
                text = None
            if isinstance(text, str):
                return text
        return default_long(data) if which == "long" else default_short(name, data, arguments)


def error_line(envelope: Mapping[str, Any]) -> str:
    """Return what went wrong, with its code and the code's meaning."""
    code = envelope.get("code")
    meaning = meaning_of(code) if isinstance(code, int) else "not a code"
    return f"Error {code} ({meaning}): {envelope.get('message')}"


def default_long(data: Any) -> str:
    """Return any data as text: strings as they are, the rest as JSON."""
    if data is None or isinstance(data, str):
        return data or "(no output)"
    try:
        return json.dumps(data, ensure_ascii=False, indent=1, default=repr)
    except Exception:  # cycles, odd keys, objects that can't even be shown
        return f"({type(data).__name__} that has no text form)"


def default_short(name: str, data: Any, arguments: Arguments) -> str:
    """Return the call and the size of its answer."""
    first = next((value for value in arguments.values() if isinstance(value, str)), "")
    first = first if len(first) <= 60 else f"{first[:59]}…"
    size = default_long(data) if data is not None else "done"
    if isinstance(data, str):
        size = f"{len(data.splitlines())} lines"
    elif isinstance(data, list | dict):
        size = f"{len(cast('Any', data))} {'entries' if isinstance(data, list) else 'fields'}"
    return f'{name} "{first}" → {size}' if first else f"{name} → {size}"
