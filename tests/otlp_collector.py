"""A collector on loopback that takes traces by OTLP over HTTP, and tells what it got."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan, Status

from cli_door import wait_until


@dataclass(frozen=True)
class Span:
    """One span as it was received; ids are in hex."""

    name: str
    id: str
    parent: str
    trace: str
    kind: str
    begun: int
    ended: int
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any], int]]
    failed: bool
    message: str
    resource: dict[str, Any] = field(repr=False)


class Collector:
    """Listens until its `with` block ends.

    One that `hangs` takes requests and never answers, one that `drops` closes their connection,
    and one that `floods` answers without an end.
    """

    def __init__(
        self, *, hangs: bool = False, drops: bool = False, floods: bool = False, status: int = 200
    ) -> None:
        self._hangs, self._drops, self._floods, self._status = hangs, drops, floods, status
        self._released = threading.Event()
        self.spans: list[Span] = []
        self.headers: list[Message] = []
        self.held = 0
        """How many requests wait for an answer that never comes."""

    def __enter__(self) -> Self:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/traces"
                collector.headers.append(self.headers)
                if collector._hangs:
                    collector.held += 1
                    collector._released.wait()
                    return
                if collector._drops:
                    self.close_connection = True
                    return
                if collector._floods:
                    self._flood()
                    return
                if collector._status == 200:
                    collector.spans += _spans(body)
                self.send_response(collector._status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _flood(self) -> None:
                self.send_response(collector._status)
                self.end_headers()
                with suppress(OSError):
                    while not collector._released.is_set():
                        self.wfile.write(b"x" * 4_096)
                        collector._released.wait(0.001)

            def log_message(self, *_words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What makes a command send its traces here, and wait for that on a busy machine too."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.address, "OTEL_BSP_EXPORT_TIMEOUT": "30000"}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def run(self, agent: str = "explorer") -> Span:
        """Return the span of the only run of an agent, once it was received."""
        wait_until(lambda: self.runs(agent))
        [run] = self.runs(agent)
        return run

    def runs(self, agent: str = "explorer") -> list[Span]:
        """Return the spans of an agent's runs that were received so far."""
        return [span for span in self.spans if span.name == f"invoke_agent {agent}"]

    def below(self, span: Span) -> list[Span]:
        """Return the spans directly below one, in the order in which they began."""
        found = [one for one in self.spans if one.parent == span.id]
        return sorted(found, key=lambda one: (one.begun, one.ended))


def _spans(body: bytes) -> Iterator[Span]:
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            assert scope.scope.name == "outrider"
            yield from (_span(span, resource) for span in scope.spans)


def _span(span: WireSpan, resource: dict[str, Any]) -> Span:
    ids = span.span_id.hex(), span.parent_span_id.hex(), span.trace_id.hex()
    kind = WireSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_")
    times = span.start_time_unix_nano, span.end_time_unix_nano
    noted = [(one.name, _attributes(one.attributes), one.time_unix_nano) for one in span.events]
    failed = span.status.code == Status.STATUS_CODE_ERROR
    about = _attributes(span.attributes), noted, failed, span.status.message
    return Span(span.name, *ids, kind, *times, *about, resource)


def _attributes(pairs: list[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)
