"""The certificates that model providers are trusted by."""

from functools import cache
from ssl import SSLContext

import httpcore2


@cache
def trusted_certificates(_file: str | None, _folder: str | None) -> SSLContext:
    """Return the trusted certificates; reading them takes 20 ms, once before children fork."""
    return httpcore2.default_ssl_context()
