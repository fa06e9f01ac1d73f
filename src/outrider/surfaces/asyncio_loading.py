"""asyncio for processes of ours that speak no TLS: most of what loading it takes is OpenSSL."""

import sys


def load_asyncio() -> None:
    """Load asyncio and hashlib without OpenSSL, which both can do without."""
    absent = [name for name in ("ssl", "_hashlib") if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    import asyncio as asyncio
    import hashlib as hashlib

    for name in absent:
        del sys.modules[name]
