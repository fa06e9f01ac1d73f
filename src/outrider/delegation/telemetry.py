"""Whether traces can be sent, and whose they go on with; nothing of OpenTelemetry is loaded."""

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from outrider.protocol.data import as_object
from outrider.settings.keys import OTLP_ENDPOINTS, TelemetryConfig

HEADERS = ("traceparent", "tracestate")
"""What names the span that a run's is below; in an environment in capitals."""
_API = "opentelemetry.trace"


def telemetry_doubt() -> str:
    """Return why there are no traces although there should be; empty where there are."""
    with suppress(ModuleNotFoundError):  # of a package above it
        if own_provider() or find_spec("opentelemetry.exporter.otlp.proto.http"):
            return ""
    return "telemetry is on, but nothing can send traces: install 'outrider[otel]'"


def telemetry_state(config: TelemetryConfig, env: Mapping[str, str]) -> tuple[str, str]:
    """Return whether there are traces and where they go, in the words of a check."""
    if not config.is_on(env):
        return "off", f"no traces; {OTLP_ENDPOINTS[-1]} or telemetry.enabled switches them on"
    endpoint = next(filter(None, map(env.get, OTLP_ENDPOINTS)), "http://localhost:4318")
    where = endpoint.rpartition("@")[2]  # without a password
    return ("warn", doubt) if (doubt := telemetry_doubt()) else ("ok", f"traces go to {where}")


def own_provider() -> Any:
    """Return what this program has set up itself to take spans; None where it has nothing."""
    if _API in sys.modules:
        from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

        with suppress(Exception):  # of a variable that names one that isn't installed
            provider = get_tracer_provider()
            return None if isinstance(provider, ProxyTracerProvider) else provider
    return None


def silence_exporter() -> None:
    """Keep Python from printing the exporter's failures, as it does where no logging is set up."""
    if own_provider() is None:
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())


def headers_in(meta: Any) -> dict[str, str]:
    """Return what names a client's span in the `_meta` of its request."""
    found = as_object(meta)
    return {name: found[name] for name in HEADERS if isinstance(found.get(name), str)}


def headers_above(given: Mapping[str, str] | None, env: Mapping[str, str]) -> dict[str, str]:
    """Return what names a caller's span: as given, of the current one, or in the environment."""
    headers = dict(given or {})
    if not headers and _API in sys.modules:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(headers)
    return headers or {name: env[name.upper()] for name in HEADERS if env.get(name.upper())}
