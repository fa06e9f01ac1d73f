"""JSON as both processes write it: one value a line, any text and any number surviving."""

import re
from typing import Any, cast

from outrider.protocol.data import as_object

_HUGE_NUMBER = re.compile(rb"\d{19}")


def without_surrogates(text: str) -> str:
    """Return `text` with each lone surrogate, which no UTF-8 can hold, as U+FFFD."""
    return text if text.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", text)


def encode(value: Any) -> bytes:
    """Return `value` as JSON on one line, without the line's end."""
    import orjson

    try:
        return orjson.dumps(value)
    except TypeError:
        # orjson refuses lone surrogates and integers over 64 bits, which models do send.
        from json import dumps

        text = dumps(_scrubbed(value), ensure_ascii=False, separators=(",", ":"))
        return text.encode()


def decode(line: bytes) -> Any:
    """Return the value on a line; raises `ValueError`. Integers of any size are kept exactly."""
    if _HUGE_NUMBER.search(line):
        from json import loads

        return loads(line)
    import orjson

    return orjson.loads(line)


def decoded_object(line: bytes) -> dict[str, Any]:
    """Return the object on a line; empty for anything else, as a line that was cut."""
    try:
        return as_object(decode(line))
    except (ValueError, RecursionError):
        return {}


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value).items()
        return {without_surrogates(str(key)): _scrubbed(item) for key, item in entries}
    if isinstance(value, list | tuple):
        return [_scrubbed(item) for item in cast("list[Any]", value)]
    return value


def pretty(value: Any) -> str:
    """Return `value` as JSON for people, and for `jq`."""
    from json import dumps

    return dumps(_scrubbed(value), ensure_ascii=False, indent=2)
