"""A masked copy of a JSON value of any depth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from .names import is_secret_name

_MASK = "[masked:secret]"

Group = tuple[int, str]
"""A list, and a place that each of its entries has: what stands there is one text in lines."""


def masked_copy(
    value: Any,
    mask: Callable[[str], str],
    mask_lines: Callable[[Sequence[str]], list[str]],
) -> tuple[Any, list[str]]:
    """Return a copy with every string masked, and the paths ("$.a[3].b") that changed.

    A string under a secret-looking key, alone or in a list, is masked entirely. Strings at the
    same place in the entries of a list are masked as the lines of one text: no single line of a
    private key shows what it is.
    """
    copy = _Copy(mask)
    root = copy.of(value)
    for leaves in copy.texts.values():
        masked_texts = mask_lines([text for _, text in leaves])
        for (slot, text), masked in zip(leaves, masked_texts, strict=True):
            copy.put(slot, text, masked)
    return root, copy.changed


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place in the copy, and what is known of it from those above."""

    holder: Any
    key: Any
    path: str
    secret: bool = False
    group: Group | None = None


@dataclass(slots=True)
class _Copy:
    """A copy of a value, with its texts in the groups that are to be masked together.

    The walk keeps its own stack: how deep the value is nested is the sender's choice, not ours.
    """

    mask: Callable[[str], str]
    texts: dict[Group | str, list[tuple[_Slot, str]]] = field(
        default_factory=dict[Group | str, list[tuple[_Slot, str]]]
    )
    changed: list[str] = field(default_factory=list[str])
    _lists: int = 0

    def of(self, value: Any) -> Any:
        root: list[Any] = [value]
        pending = [_Slot(root, 0, "$")]
        while pending:
            slot = pending.pop()
            item = slot.holder[slot.key]
            if isinstance(item, str):
                self._take_text(slot, item)
            elif isinstance(item, dict):
                pending += reversed(self._fields(slot, cast("dict[str, Any]", item)))
            elif isinstance(item, list | tuple):
                pending += reversed(self._entries(slot, list(cast("list[Any]", item))))
        return root[0]

    def put(self, slot: _Slot, text: str, masked: str) -> None:
        if masked != text:
            slot.holder[slot.key] = masked
            self.changed.append(slot.path)

    def _take_text(self, slot: _Slot, text: str) -> None:
        if slot.secret:
            self.put(slot, text, _MASK if text else "")
        else:
            self.texts.setdefault(slot.group or slot.path, []).append((slot, text))

    def _entries(self, slot: _Slot, items: list[Any]) -> list[_Slot]:
        slot.holder[slot.key] = items
        self._lists += 1
        group = (self._lists, "")
        return [
            _Slot(items, index, f"{slot.path}[{index}]", slot.secret, group)
            for index in range(len(items))
        ]

    def _fields(self, slot: _Slot, item: dict[str, Any]) -> list[_Slot]:
        slot.holder[slot.key] = copy = self._with_masked_keys(item, slot.path)
        group, slots = slot.group, list[_Slot]()
        for key in copy:
            step = _step(key)
            below = None if group is None else (group[0], group[1] + step)
            slots.append(_Slot(copy, key, slot.path + step, is_secret_name(key), below))
        return slots

    def _with_masked_keys(self, item: dict[str, Any], path: str) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for key, entry in item.items():
            masked = unique = self.mask(key)
            number = 1
            while unique in copy:  # two secret keys must not swallow each other's values
                number += 1
                unique = f"{masked}-{number}"
            if unique != key:
                self.changed.append(f"{path}{_step(unique)}")
            copy[unique] = entry
        return copy


def _step(key: str) -> str:
    """Return `.key`, or `["a key"]` where it isn't a plain name."""
    if key.replace("_", "a").replace("-", "a").isalnum():
        return f".{key}"
    from json import dumps

    return f"[{dumps(key)}]"
