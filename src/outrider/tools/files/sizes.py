"""Sizes as people write them."""


def shown_size(count: int) -> str:
    """Return a number of bytes in the unit that keeps it short: `512 B`, `3.4 KB`."""
    if count < 1_024:
        return f"{count} B"
    size = float(count)
    for unit in ("KB", "MB", "GB"):
        size /= 1_024
        if size < 1_024:
            return f"{size:.1f} {unit}"
    return f"{size / 1_024:.1f} TB"
