"""Results cut to size: text for the model, and data for the envelope that travels in an event."""

from typing import Any, Literal, cast

from outrider.protocol.jsonl import encode

Keep = Literal["head", "ends"]
_STEPS = 12


def cut_text(text: str, max_bytes: int, keep: Keep) -> tuple[str, str] | None:
    """Return both ends of a text that is too long, cut at lines if it can; None if it fits.

    Where only the head is kept, the other end is empty.
    """
    raw = text.encode()
    if len(raw) <= max_bytes:
        return None
    if keep == "head":
        return _to_last_line(raw[:max_bytes]), ""
    head, tail = raw[: max_bytes // 2], raw[-(max_bytes // 2) :]
    start = tail.find(b"\n") + 1
    tail = tail[start if start <= len(tail) // 2 else 0 :]
    return _to_last_line(head), tail.decode(errors="ignore")


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
        ends = cut_text(value, room, keep)
        return value if ends is None else f"{ends[0]}\n[cut: {len(value)} characters]\n{ends[1]}"
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
