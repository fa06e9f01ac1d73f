"""Results cut to size: text for the model, and data for the envelope that travels in an event."""

from dataclasses import dataclass
from typing import Any, Literal, cast

from outrider.protocol.jsonl import encode

Keep = Literal["head", "ends"]
_STEPS = 12


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of a text: its beginning, and its end where that is kept too."""

    head: str
    tail: str
    total_bytes: int

    @property
    def shown_bytes(self) -> int:
        """How many bytes of the text are left."""
        return len(self.head.encode()) + len(self.tail.encode())


def cut_text(text: str, max_bytes: int, keep: Keep) -> Cut | None:
    """Return what to show of a text that is too long, at line ends if it can; None if it fits."""
    raw = text.encode()
    if len(raw) <= max_bytes:
        return None
    if keep == "head":
        return Cut(_to_last_line(raw[:max_bytes]), "", len(raw))
    half = max_bytes // 2
    return Cut(_to_last_line(raw[:half]), _from_first_line(raw[-half:]), len(raw))


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
        cut = cut_text(value, room, keep)
        return value if cut is None else f"{cut.head}\n[cut: {cut.total_bytes} bytes]\n{cut.tail}"
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


def _from_first_line(raw: bytes) -> str:
    start = raw.find(b"\n")
    return raw[start + 1 if 0 <= start < len(raw) // 2 else 0 :].decode(errors="ignore")
