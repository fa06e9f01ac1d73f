"""Durations and sizes as people write them: `90s`, `1h30m`, `512K`, `10 MB`, `1 GiB`."""

import re
from collections.abc import Mapping

from outrider.protocol.errors import OutriderError

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
MILLISECONDS = {"ms": 1, **{unit: seconds * 1_000 for unit, seconds in _SECONDS.items()}}
# As in GNU coreutils: K and KiB are 1024 bytes, kB is 1000.
BYTES = {
    unit: base**power
    for base, ending in ((1024, ""), (1024, "ib"), (1000, "b"))
    for power, unit in enumerate(("b", *(f"{letter}{ending}" for letter in "kmgt")))
}
UNIT_OF_KEY = {"Ms": "ms", "Minutes": "m", "Days": "d"}
_PART = r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)"


class SettingError(OutriderError, ValueError):
    """A value that its key can't take; the message says which values it takes."""


def milliseconds(text: str, unit: str) -> float:
    """Return a duration in milliseconds; a bare number counts in `unit`."""
    return _read(text, MILLISECONDS, unit, "duration: write 90s, 5m or 1h30m")


def number_for(key: str, text: str) -> object:
    """Return the number that a text stands for as the value of a key; any other text as it is."""
    if key.endswith("Bytes"):
        return round(_read(text, BYTES, "b", "size: write 512K, 10 MB or 1 GiB"))
    for ending, unit in UNIT_OF_KEY.items():
        if key.endswith(ending):
            number = milliseconds(text, unit) / MILLISECONDS[unit]
            return int(number) if number.is_integer() else number
    return text


def _read(text: str, units: Mapping[str, int], bare: str, what: str) -> float:
    parts = re.findall(_PART, text.lower(), re.ASCII)
    whole = "".join(map("".join, parts)) == "".join(text.lower().split())
    # A number without a unit stands alone: what is 30 in `1h30`?
    named = [(number, unit or (bare if len(parts) == 1 else "")) for number, unit in parts]
    if not named or not whole or any(unit not in units for _, unit in named):
        raise SettingError(f"{text!r} isn't a {what}")
    return sum(float(number) * units[unit] for number, unit in named)
