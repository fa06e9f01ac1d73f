"""Which client speaks with a model: our own lean one, the provider layer's, or none at all."""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from outrider.models.known_providers import PROXY_VARIABLES
from outrider.models.resolution import is_embedded

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 3600.0  # only against a dead peer: the run has its own deadlines
OPENAI_URL = "https://api.openai.com/v1"
LEAN_PREFIXES = {"openai-chat": "OPENAI", "ollama": "OLLAMA", "vllm": "VLLM"}
"""The providers of the lean wire, and how their variables begin."""
_AS_SENT = re.compile(r"[\w.:/%~\[\]-]+", re.ASCII)


class Wire(StrEnum):
    LEAN = "lean"
    SDK = "sdk"
    EMBEDDED = "embedded"


def wire_of(model: str, env: Mapping[str, str], chosen: str = "auto") -> Wire:
    """Return how a model is reached from an environment; what is doubtful, by the layer."""
    if is_embedded(model):
        return Wire.EMBEDDED
    prefix = LEAN_PREFIXES.get(model.partition(":")[0])
    has_proxy = any(env.get(name) for name in PROXY_VARIABLES)
    if prefix is None or chosen != "auto" or has_proxy or env.get("OPENAI_CUSTOM_HEADERS"):
        return Wire.SDK
    address = env.get(f"{prefix}_BASE_URL", "").strip()
    return Wire.LEAN if not address or _is_plain(address) else Wire.SDK


def _is_plain(address: str) -> bool:
    """Whether an address is nothing but a scheme, a host, a port and a path."""
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname and (parts.port is None or parts.port))
    except ValueError:
        return False
    extra = "@" in parts.netloc or parts.query or parts.fragment
    # A client that isn't ours would rewrite other characters, and steps in the path.
    is_as_sent = _AS_SENT.fullmatch(address) and "/." not in parts.path
    return parts.scheme in ("http", "https") and has_host and not extra and bool(is_as_sent)


@cache
def trusted_certificates(_file: str | None, _folder: str | None) -> "SSLContext":
    """Return the trusted certificates; reading them takes 20 ms, once before children fork."""
    import httpcore2

    return httpcore2.default_ssl_context()
