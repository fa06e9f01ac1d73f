"""A masked copy of a JSON value of any depth."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, cast

from .names import Promise, promise_of
from .search import MAX_CACHED
from .values import Style, is_literal_secret

_MASK = "[masked:secret]"
_MAX_CACHED_KEYS = 256  # characters of all keys of an object
_WALKED = (str, dict, list, tuple)

Group = tuple[int, str]  # a list, and a place in its entries, whose strings are lines of one text

Slot = tuple[Any, Any, str, Promise, Group | None]
"""A place in the copy: its holder and key, its path, what its name promises, and its group."""


def masked_copy(
    value: Any, mask: Callable[[str], str], mask_lines: Callable[[Sequence[str]], list[str]]
) -> tuple[Any, list[str]]:
    """Return a copy with every string masked, and the paths ("$.a[3].b") that changed.

    A string under a secret-looking key, alone or in a list, is masked entirely. Strings at the
    same place in the entries of a list are masked as the lines of one text, because a single line
    of a private key doesn't show what it is.
    """
    copy = _Copy(mask)
    root = copy.of(value)
    for slots in copy.texts.values():
        masked_texts = mask_lines([holder[key] for holder, key, _, _, _ in slots])
        for slot, masked in zip(slots, masked_texts, strict=True):
            copy.put(slot, masked)
    return root, copy.changed


class _Copy:
    """A copy of a value, with its texts in the groups that are masked together.

    The walk keeps its own stack: the sender decides how deep the value is nested.
    """

    def __init__(self, mask: Callable[[str], str]) -> None:
        self.texts: dict[Group, list[Slot]] = {}
        self.changed: list[str] = []
        self._mask = mask
        self._lists = 0

    def of(self, value: Any) -> Any:
        root: list[Any] = [value]
        first: Slot = (root, 0, "$", Promise.NONE, None)
        pending: list[Slot] = [first] if isinstance(value, _WALKED) else []
        while pending:
            slot = pending.pop()
            holder, key, _, promise, group = slot
            item = holder[key]
            if isinstance(item, str):
                hinted = promise is Promise.HINT and is_literal_secret(promise, item, Style.QUOTED)
                if hinted or promise > Promise.HINT:
                    self.put(slot, _MASK if item else "")
                elif group is None:
                    self.put(slot, self._mask(item))
                else:
                    self.texts.setdefault(group, []).append(slot)
            elif isinstance(item, dict):
                pending += reversed(self._fields(slot, cast("dict[str, Any]", item)))
            else:
                pending += reversed(self._entries(slot, item))
        return root[0]

    def put(self, slot: Slot, masked: str) -> None:
        holder, key, path, _, _ = slot
        if masked != holder[key]:
            holder[key] = masked
            self.changed.append(path)

    def _entries(self, slot: Slot, sequence: Sequence[Any]) -> list[Slot]:
        holder, key, path, promise, _ = slot
        holder[key] = items = list(sequence)
        self._lists += 1
        group = (self._lists, "")
        return [
            (items, index, f"{path}[{index}]", promise, group)
            for index, item in enumerate(items)
            if isinstance(item, _WALKED)
        ]

    def _fields(self, slot: Slot, item: dict[str, Any]) -> list[Slot]:
        holder, own_key, path, _, group = slot
        copy: dict[str, Any] = {}
        holder[own_key] = copy
        slots: list[Slot] = []
        is_short = sum(map(len, item)) <= _MAX_CACHED_KEYS
        keys = _short_steps(self._mask, tuple(item)) if is_short else _steps(self._mask, item)
        for (masked, step, promise), (key, value) in zip(keys, item.items(), strict=True):
            if masked != key:
                self.changed.append(path + step)
            copy[masked] = value
            if isinstance(value, _WALKED):
                below = None if group is None else (group[0], group[1] + step)
                slots.append((copy, masked, path + step, promise, below))
        return slots


def _steps(mask: Callable[[str], str], keys: Iterable[str]) -> list[tuple[str, str, Promise]]:
    """Return each key masked, the step of a path to it, and what it promises."""
    steps: dict[str, tuple[str, str, Promise]] = {}
    for key in keys:
        masked = mask(key)
        if masked in steps:  # else two masked keys would overwrite each other's values
            masked = next(k for n in count(2) if (k := f"{masked}-{n}") not in steps)
        step = _step(masked) if len(masked) > MAX_CACHED else _short_step(masked)
        steps[masked] = (masked, *step)
    return list(steps.values())


def _step(key: str) -> tuple[str, Promise]:
    """Return `.key`, or `["a key"]` where it isn't a plain name, and what it promises."""
    if key.replace("_", "a").replace("-", "a").isalnum():
        return f".{key}", promise_of(key)
    from json import dumps

    return f"[{dumps(key)}]", promise_of(key)


_short_step = lru_cache(maxsize=1024)(_step)
_short_steps = lru_cache(maxsize=1024)(_steps)
