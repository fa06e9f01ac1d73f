"""JSON values as models and callers write them: measured and named, never repaired."""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, TypeGuard

from outrider.protocol.data import frozen

JSON: TypeAlias = Any  # what JSON can hold: dict, list, str, int, float, bool or None

Keys: TypeAlias = tuple[str | int, ...]  # the way from a value's root to a place in it

MAX_DEPTH = 128
MAX_VALUES = 5_000_000
MAX_MESSAGE = 300
MAX_LISTED = 12

_KINDS = frozenset({dict, list, str, int, float, bool, type(None)})
_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_-]*")


@frozen
class Fault:
    """One thing that is wrong with a value, and where."""

    path: str
    message: str

    def to_dict(self) -> dict[str, str]:
        return {"path": self.path, "message": self.message}

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(slots=True)
class Survey:
    """How large a value is, and what keeps it from being JSON, if anything does."""

    flaw: str | None = None
    values: int = 0
    wide_words: int = 0  # how many 64-bit words its integers take that don't fit into one


def survey(value: object, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES) -> Survey:
    """Return the size of `value` and its first flaw; safe for any depth, and for cycles."""
    found = Survey()
    level: list[Any] = [value]  # a whole level at a time, which is fast
    for _ in range(max_depth):
        found.values += len(level)
        found.flaw = _flaw_among(level, found)
        if found.values > max_values:
            found.flaw = f"it holds more than {max_values:,} values"
        held = [*_only(list, level), *(item.values() for item in _only(dict, level))]
        level = list(chain.from_iterable(held))
        if found.flaw or not level:
            return found
    found.flaw = f"it is nested more than {max_depth} levels deep"
    return found


def is_object(value: JSON) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_array(value: JSON) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def at(value: JSON, keys: Iterable[str | int]) -> JSON:
    for key in keys:
        value = value[key]
    return value


def path_text(keys: Iterable[str | int]) -> str:
    """Return a path as people write it: `$.findings[3].line`."""
    return shortened("$" + "".join(map(_step, keys)))


def as_json_list(*items: JSON) -> str:
    """Return values as JSON, in a short list."""
    texts = [shortened(json.dumps(item, ensure_ascii=False), 80) for item in items[:MAX_LISTED]]
    more = len(items) - MAX_LISTED
    return ", ".join(texts) + (f" and {more} more" if more > 0 else "")


def shortened(text: str, most: int = MAX_MESSAGE) -> str:
    """Return `text`, without its middle where it is longer than `most`."""
    # A validator's message begins with what was given and ends with what was expected.
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _step(key: str | int) -> str:
    if isinstance(key, str) and _PLAIN_KEY.fullmatch(key):
        return f".{shortened(key, 80)}"
    return f"[{as_json_list(key)}]"


def _flaw_among(level: list[Any], found: Survey) -> str | None:
    kinds = set(map(type, level))
    if strange := kinds - _KINDS:
        return f"it holds a Python {min(kind.__name__ for kind in strange)}, which is not JSON"
    if float in kinds and not all(map(math.isfinite, _only(float, level))):
        return "it holds a number that is not finite (NaN, Infinity, or too large for a double)"
    lengths = [number.bit_length() for number in _only(int, level)]
    found.wide_words += sum(length // 64 + 1 for length in lengths if length > 63)
    keys: list[Any] = list(chain.from_iterable(_only(dict, level)))
    if not set(map(type, keys)) <= {str}:
        return "it holds an object with a key that is not a string"
    try:
        "".join(chain(_only(str, level), keys)).encode()
    except UnicodeEncodeError:
        return "it holds a lone surrogate (half of a character), which is not text"
    return None


def _only(kind: type, level: list[Any]) -> list[Any]:
    return [item for item in level if type(item) is kind]
