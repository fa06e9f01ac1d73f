"""Any Python value as plain JSON: what a tool returns must travel in an event."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, cast

from outrider.protocol.jsonl import without_surrogates

MAX_DEPTH = 64
MAX_VALUES = 200_000
_LARGEST = 2**63
_CUT = "(cut: too many values)"


def jsonable(value: object) -> Any:
    """Return a value as JSON has it; what JSON hasn't becomes text, what has no end is cut."""
    return _Converter().convert(value, 0)


class _Converter:
    def __init__(self) -> None:
        self._room = MAX_VALUES
        self._above: set[int] = set()

    def convert(self, value: object, depth: int) -> Any:
        self._room -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return self.convert(value.value, depth)
        if isinstance(value, str):
            return without_surrogates(str(value))
        if isinstance(value, int):
            return int(value) if -_LARGEST <= value < 2 * _LARGEST else _digits(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(value)
        if depth >= MAX_DEPTH or id(value) in self._above:
            return "(cut: nested too deep)"
        self._above.add(id(value))
        try:
            return self._compound(value, depth + 1)
        finally:
            self._above.discard(id(value))

    def _compound(self, value: object, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value).items(), depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(cast("Iterable[object]", value), depth)
        if isinstance(value, bytes | bytearray):
            return f"({len(value)} bytes)"
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [one.name for one in dataclasses.fields(value)]
            return self._mapping([(name, getattr(value, name, None)) for name in names], depth)
        dump: Callable[..., object] | None = getattr(value, "model_dump", None)
        if callable(dump) and not isinstance(value, type):
            return self.convert(dump(mode="json"), depth)
        return without_surrogates(_text(value))

    def _mapping(self, pairs: Iterable[tuple[object, object]], depth: int) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        for key, item in pairs:
            if self._room <= 0:
                return {**converted, "…": _CUT}
            converted[without_surrogates(_text(key))] = self.convert(item, depth)
        return converted

    def _list(self, items: Iterable[object], depth: int) -> list[Any]:
        converted: list[Any] = []
        for item in items:
            if self._room <= 0:
                return [*converted, _CUT]
            converted.append(self.convert(item, depth))
        return converted


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # foreign code, which may do anything
        return f"({type(value).__name__})"


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python refuses to write out very long numbers
        return f"(a number of {value.bit_length()} bits)"
