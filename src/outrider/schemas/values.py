"""JSON values as models and callers write them: surveyed, read and shown, never repaired."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, cast

JSON: TypeAlias = Any
"""What JSON can hold: dict, list, str, int, float, bool or None."""

Keys: TypeAlias = tuple[str | int, ...]
"""The way from a value's root to a place in it."""

MAX_REPORT_DEPTH = 128
MAX_REPORT_VALUES = 5_000_000
MAX_MESSAGE = 300

_KINDS = frozenset({dict, list, str, int, float, bool, type(None)})
_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_-]*")
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
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
    wide_integers: int = 0
    wide_words: int = 0


def survey(value: object, max_depth: int, max_values: int) -> Survey:
    """Return the size of `value` and its first flaw; safe for any depth, and for cycles.

    It goes level by level, so that the work is done by whole lists at a time.
    """
    found = Survey()
    level: list[Any] = [value]
    for _ in range(max_depth):
        found.values += len(level)
        if found.values > max_values:
            found.flaw = f"it holds more than {max_values:,} values"
        else:
            found.flaw = _flaw_among(level, found)
        if found.flaw:
            return found
        level = _below(level)
        if not level:
            return found
    found.flaw = f"it is nested more than {max_depth} levels deep"
    return found


def parse_arguments(raw: str | Mapping[str, Any]) -> tuple[JSON | None, Fault | None]:
    """Return what a model sent as a tool's arguments, or the fault that makes it unreadable.

    Broken JSON is never mended. A key given twice is refused: which one was meant is a guess.
    """
    if isinstance(raw, str):
        value, fault = _read(raw)
    else:
        value, fault = dict(raw), None
    if fault is None and (flaw := survey(value, MAX_REPORT_DEPTH, MAX_REPORT_VALUES).flaw):
        fault = Fault("$", f"the call can't be used: {flaw}")
    return (None, fault) if fault else (value, None)


def path_text(keys: Keys) -> str:
    """Return a path as people write it: `$.findings[3].line`."""
    text = "$" + "".join(map(_step, keys))
    return text if len(text) <= MAX_MESSAGE else f"{text[:200]}…{text[-90:]}"


def show(value: JSON) -> str:
    """Return a few words that name a value in a sentence, whatever its size."""
    match value:
        case str():
            return repr(cut(value, 80))
        case bool() | None:
            return json.dumps(value)
        case int() if value.bit_length() > 256:
            return f"an integer of {value.bit_length():,} bits"
        case int() | float():
            return str(value)
        case list():
            return f"an array of {len(cast('list[Any]', value))}"
        case _:
            return f"an object {_listed(cast('dict[str, Any]', value))}"


def names(keys: Iterable[str], most: int = 8) -> str:
    """Return property names as a short list, each quoted."""
    every = list(keys)
    shown = ", ".join(repr(cut(key, 40)) for key in every[:most])
    return f"{shown} and {len(every) - most} more" if len(every) > most else shown


def cut(text: str, most: int = MAX_MESSAGE) -> str:
    """Return `text`, ended with an ellipsis where it is longer than `most`."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _listed(value: dict[str, Any]) -> str:
    return f"with {names(value, 4)}" if value else "with nothing in it"


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    if _PLAIN_KEY.fullmatch(key):
        return f".{cut(key, 80)}"
    return f"[{json.dumps(cut(key, 80), ensure_ascii=False)}]"


def _flaw_among(level: list[Any], found: Survey) -> str | None:
    kinds = set(map(type, level))
    if strange := kinds - _KINDS:
        return f"it holds a Python {min(kind.__name__ for kind in strange)}, which is not JSON"
    if float in kinds and not all(map(math.isfinite, _only(float, level))):
        return "it holds a number that is not finite (NaN, Infinity, or too large for a double)"
    if int in kinds:
        _count_wide(level, found)
    texts = _only(str, level)
    if dict in kinds:
        keys = list(chain.from_iterable(_only(dict, level)))
        if not set(map(type, keys)) <= {str}:
            return "it holds an object with a key that is not a string"
        texts += keys
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return "it holds a lone surrogate (half of a character), which is not text"
    return None


def _count_wide(level: list[Any], found: Survey) -> None:
    integers = _only(int, level)
    if min(integers) >= _LOWEST and max(integers) <= _HIGHEST:
        return
    wide = [item for item in integers if not _LOWEST <= item <= _HIGHEST]
    found.wide_integers += len(wide)
    found.wide_words += sum(item.bit_length() // 64 + 1 for item in wide)


def _below(level: list[Any]) -> list[Any]:
    lists = _only(list, level)
    objects = (item.values() for item in _only(dict, level))
    return list(chain(chain.from_iterable(lists), chain.from_iterable(objects)))


def _only(kind: type, level: list[Any]) -> list[Any]:
    return [item for item in level if type(item) is kind]


class _TwiceError(ValueError):
    pass


def _read(raw: str) -> tuple[JSON | None, Fault | None]:
    try:
        return json.loads(raw, object_pairs_hook=_once, parse_constant=_refuse_constant), None
    except json.JSONDecodeError as error:
        return None, Fault("$", f"the arguments are not JSON: {_what_is_wrong(raw, error)}")
    except _TwiceError as error:
        return None, Fault("$", cut(str(error)))
    except RecursionError:
        message = f"the arguments are nested more than {MAX_REPORT_DEPTH} levels deep"
        return None, Fault("$", message)
    except ValueError:  # the interpreter's own limit: reading more digits takes quadratic time
        return None, Fault("$", "the arguments hold an integer of more than 4,300 digits")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise _TwiceError(f"the key {cut(key, 80)!r} is given twice in one object; give it once")
    return read


def _refuse_constant(name: str) -> Any:
    raise _TwiceError(f"{name} is not JSON; give a finite number, or null where that is allowed")


def _what_is_wrong(raw: str, error: json.JSONDecodeError) -> str:
    where = f"at line {error.lineno}, column {error.colno}"
    if not raw.strip():
        return "they are empty; send one JSON object"
    if raw.lstrip().startswith("```"):
        return "they begin with a code fence (```); send the bare JSON object"
    if error.msg.startswith("Unterminated string"):
        return f"they end inside the string that begins {where}; send the whole object again"
    if error.pos >= len(raw.rstrip()):
        return f"they end too early, {where}: {error.msg}; send the whole object again"
    if _is_trailing_comma(raw, error.pos):
        return f"a trailing comma {where}; leave it out"
    return f"{error.msg} {where}, before {cut(raw[error.pos :], 40)!r}"


def _is_trailing_comma(raw: str, position: int) -> bool:
    rest = raw[position:].lstrip(", \t\r\n")
    before = raw[:position].rstrip()
    return rest[:1] in ("}", "]") and (before.endswith(",") or raw[position] == ",")
