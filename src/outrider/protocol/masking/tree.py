"""A masked copy of a JSON value of any depth."""

from collections.abc import Callable
from typing import Any, cast

from .names import is_secret_name

_MASK = "[masked:secret]"


def masked_copy(value: Any, mask: Callable[[str], str]) -> tuple[Any, list[str]]:
    """Return a copy with every string masked, and the paths ("$.a[3].b") that changed.

    A string under a secret-looking key, alone or in a list, is masked entirely. The walk keeps
    its own stack: how deep the value is nested is the sender's choice, not ours.
    """
    changed: list[str] = []
    root: list[Any] = [value]
    pending: list[tuple[Any, Any, str, bool]] = [(root, 0, "$", False)]
    while pending:
        holder, slot, path, secret = pending.pop()
        item = holder[slot]
        if isinstance(item, str):
            holder[slot] = masked = _masked(item, mask, secret)
            if masked != item:
                changed.append(path)
        elif isinstance(item, dict):
            copy = _with_masked_keys(cast("dict[str, Any]", item), mask, path, changed)
            holder[slot] = copy
            pending.extend(
                (copy, key, f"{path}{_step(key)}", is_secret_name(key)) for key in reversed(copy)
            )
        elif isinstance(item, list | tuple):
            items: list[Any] = list(cast("list[Any]", item))
            holder[slot] = items
            pending.extend(
                (items, index, f"{path}[{index}]", secret) for index in reversed(range(len(items)))
            )
    return root[0], changed


def _masked(text: str, mask: Callable[[str], str], secret: bool) -> str:
    return _MASK if secret and text and text != _MASK else mask(text)


def _with_masked_keys(
    item: dict[str, Any], mask: Callable[[str], str], path: str, changed: list[str]
) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    for key, entry in item.items():
        masked = unique = mask(key)
        number = 1
        while unique in copy:  # two secret keys must not swallow each other's values
            number += 1
            unique = f"{masked}-{number}"
        if unique != key:
            changed.append(f"{path}{_step(unique)}")
        copy[unique] = entry
    return copy


def _step(key: str) -> str:
    """Return `.key`, or `["a key"]` where it isn't a plain name."""
    if key.replace("_", "a").replace("-", "a").isalnum():
        return f".{key}"
    from json import dumps

    return f"[{dumps(key)}]"
