"""The text of an envelope, long for the model and short for the live view, cut to a size."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, cast

from outrider.protocol.data import as_list, frozen
from outrider.protocol.envelope import is_success, meaning_of
from outrider.protocol.jsonl import encode
from outrider.protocol.text import one_line

MAX_SHORT_CHARACTERS = 160
_STEPS = 12

Keep = Literal["head", "ends"]  # what stays of a result that is too long
Arguments = Mapping[str, Any]
Form = Callable[[Any, Arguments], str]  # made of an envelope's data and a call's arguments


@frozen
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
        return one_line(text, MAX_SHORT_CHARACTERS)

    def _form(self, which: str, name: str, data: Any, arguments: Arguments) -> str:
        form: Form | None = getattr(self._formatters.get(name), which, None)
        with suppress(BaseException):  # foreign code: the default stands in for it
            text: object = form and form(data, arguments)
            if isinstance(text, str):
                return text
        if which == "long":
            return default_long(data)
        return default_short(name, self._form("long", name, data, arguments), arguments)


def error_line(envelope: Mapping[str, Any]) -> str:
    """Return what went wrong, with its code and the code's meaning."""
    code = envelope.get("code")
    meaning = meaning_of(code) if isinstance(code, int) else "not a code"
    message = envelope.get("message")
    said = f": {meaning}" if message == meaning else f" ({meaning}): {message}"
    return f"Error {code}{said}"


def default_long(data: Any) -> str:
    """Return any data as text: strings as they are, the rest as JSON."""
    if data is None or isinstance(data, str):
        return data or "(no output)"
    try:
        return json.dumps(data, ensure_ascii=False, indent=1, default=repr)
    except Exception:  # cycles, odd keys, objects that can't even be shown
        return f"({type(data).__name__} that has no text form)"


def default_short(name: str, whole: str, arguments: Arguments) -> str:
    """Return the call, and the size of what the model sees of its answer."""
    given = ((as_list(one) or [one])[0] for one in arguments.values())
    first = next((f' "{one_line(one, 60)}"' for one in given if isinstance(one, str) and one), "")
    lines = whole.count("\n") + 1
    return f"{name}{first} → {lines:,} line{'' if lines == 1 else 's'}"


def cut_text(text: str, max_bytes: int, keep: Keep) -> tuple[str, str] | None:
    """Return the ends to keep of a text, cut at lines where possible; None if all of it fits."""
    raw = text.encode()
    if len(raw) <= max_bytes:
        return None
    if keep == "head":
        return _to_last_line(raw[:max_bytes]), ""
    head, tail = raw[: max_bytes // 2], raw[-(max_bytes // 2) :]
    start = tail.find(b"\n") + 1
    tail = tail[start if start <= len(tail) // 2 else 0 :]
    return _to_last_line(head), tail.decode(errors="ignore")


def shrink(data: Any, max_bytes: int, keep: Keep) -> Any:
    """Return data that takes at most so many bytes as JSON, its strings and lists shortened."""
    if len(encode(data)) <= max_bytes:
        return data
    for step in range(1, _STEPS):
        smaller = _shortened(data, max(max_bytes >> step, 64), keep)
        if len(encode(smaller)) <= max_bytes:
            return smaller
    return "(too large to be kept here)"


def _shortened(value: Any, room: int, keep: Keep) -> Any:
    if isinstance(value, str):
        ends = cut_text(value, room, keep)
        return value if ends is None else f"{ends[0]}\n[cut: {len(value)} characters]\n{ends[1]}"
    if isinstance(value, list):
        items = cast("list[Any]", value)
        most = max(room // 16, 4)
        left = [_shortened(item, room, keep) for item in items[:most]]
        return left if len(items) <= most else [*left, f"[cut: {len(items)} entries]"]
    if isinstance(value, dict):
        fields = list(cast("dict[str, Any]", value).items())[: max(room // 16, 16)]
        return {key[:200]: _shortened(item, room, keep) for key, item in fields}
    return value


def _to_last_line(raw: bytes) -> str:
    end = raw.rfind(b"\n")
    # A line that fills most of the room is cut within, rather than shown not at all.
    return raw[: end + 1 if end > len(raw) // 2 else None].decode(errors="ignore")
