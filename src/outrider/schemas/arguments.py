"""Reads the arguments of a tool call: once, exactly as the model wrote them, or not at all.

Broken JSON is never mended. A key given twice is refused: which one was meant would be a guess.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, NoReturn

from outrider.protocol.data import frozen

from .values import JSON, MAX_DEPTH, Fault, Survey, shortened, survey

_TRAILING_COMMA = re.compile(r",\s*[}\]]")


@frozen
class CallArguments:
    """What a model sent with a call: its value, or the fault that makes it unreadable."""

    raw: str | Mapping[str, Any]
    value: JSON = None
    fault: Fault | None = None
    size: Survey = field(default_factory=Survey)

    @property
    def shown(self) -> JSON:
        """The value; where there is none, what the model sent instead."""
        return self.value if self.fault is None else self.raw


def read_arguments(raw: str | Mapping[str, Any] | None) -> CallArguments:
    """Return a call's arguments; no text at all means none, which is how providers write `{}`."""
    raw = raw or {}
    value: JSON = {}
    try:
        if not isinstance(raw, str):
            value = dict(raw)
        elif raw.strip():
            value = json.loads(raw, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except RecursionError:
        size = Survey(f"they are nested more than {MAX_DEPTH} levels deep")
    except ValueError as error:
        size = Survey(_what_is_wrong(str(raw), error))
    else:
        size = survey(value)
        if not size.flaw:
            return CallArguments(raw, value, size=size)
    message = shortened(f"the arguments are not JSON: {size.flaw}")
    return CallArguments(raw, fault=Fault("$", message))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {shortened(key, 80)!r} is given twice in one object; drop one")
    return read


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; give a finite number, or null where that is allowed")


def _what_is_wrong(raw: str, error: ValueError) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return str(error)  # also the interpreter's own limit of 4300 digits
    where = f"at line {error.lineno}, column {error.colno}"
    if raw.lstrip().startswith("```"):
        return "they begin with a code fence (```); send the bare JSON object"
    if error.msg.startswith("Unterminated string"):
        return f"they end inside the string that begins {where}; send the whole object again"
    if error.pos >= len(raw.rstrip()):
        return f"they end too early, {where}: {error.msg}; send the whole object again"
    if _TRAILING_COMMA.match(raw, max(0, raw.rfind(",", 0, error.pos + 1))):
        return f"a trailing comma {where}; leave it out"
    return f"{error.msg} {where}, before {shortened(raw[error.pos :], 40)!r}"
