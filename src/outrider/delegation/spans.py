"""The spans of one run, by OpenTelemetry's conventions for generative AI."""

import atexit
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from outrider.delegation.event_masking import MaskedEvent
from outrider.delegation.preparation import Prepared
from outrider.delegation.telemetry import own_provider
from outrider.models.resolution import shown_model
from outrider.protocol import events, jsonl
from outrider.protocol.data import member
from outrider.protocol.envelope import is_success
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import ToolResult
from outrider.protocol.usage import Usage

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
LIMIT, LIMIT_MS = "OTEL_BSP_EXPORT_TIMEOUT", 1_000
"""How long a process that ends waits for the collector to take its last spans."""
LOST = "the collector did not take the last spans within %d ms; %s sets another limit"
UNUSABLE = "there are no traces, for OpenTelemetry can't be set up: %s. Check its OTEL_ variables"
MAX_NAME = 200
RUN, REQUEST = "run", "request"
"""The keys of the run's own span, and of that of the request under way."""
_contexts: dict[str, Context] = {}
"""Of the runs under way, for those that they delegate."""
PROVIDERS = {
    "azure": "azure.ai.openai", "azure-responses": "azure.ai.openai", "bedrock": "aws.bedrock",
    "google": "gcp.gemini", "google-cloud": "gcp.vertex_ai", "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai", "openai-chat": "openai", "openai-responses": "openai",
    "xai": "x_ai",
}  # fmt: skip
"""What the conventions call a provider, where that isn't what we call it."""


class RunSpans:
    """The open spans of a run: its own, and below that those of a request and of tool calls."""

    def __init__(self, prepared: Prepared, run_id: str, above: Mapping[str, str], at: int) -> None:
        self._tracer = (own_provider() or _exporting_provider()).get_tracer("outrider")
        self._has_text = prepared.project.env.get(CAPTURE, "").strip().lower() == "true"
        self._model, self._run_id, agent = prepared.choice.shown, run_id, prepared.definition.name
        self._child_begun = self._last = at
        self._open: dict[str, trace.Span] = {}
        named = TraceContextTextMapPropagator().extract(above, Context())
        self._context = _contexts.get(above.get("run", ""), named)
        about = self._asked() | {"gen_ai.agent.name": agent, "outrider.run.id": run_id}
        task = prepared.project.masker.text(prepared.request.task)
        about["gen_ai.input.messages"] = self._message("user", task)
        self._start(RUN, f"invoke_agent {agent}", at, about)
        self._context = _contexts[run_id] = trace.set_span_in_context(self._open[RUN])

    def take(self, news: MaskedEvent | ToolResult, now: int) -> None:
        """Take in an event, at the time that the child says if that can be, or the result."""
        if isinstance(news, ToolResult):
            self._conclude(news, max(now, self._last))
        elif type(at := news.data.get("at")) is int:  # a piece of text has none
            if isinstance(news.event, events.SessionEvent):
                self._child_begun = now - at * 1_000_000
            at = min(self._child_begun + at * 1_000_000, now)
            self._last = max(at, self._last)
            self._take(news.event, self._last)

    def _take(self, event: events.Event, at: int) -> None:
        match event:
            case events.SessionEvent():
                self._model = shown_model(event.model)
            case events.TurnStartEvent():
                asked = self._asked()
                self._start(REQUEST, f"chat {asked['gen_ai.request.model']}", at, asked)
            case events.RetryEvent() if REQUEST in self._open:
                retry = {"outrider.retry.attempt": event.attempt, "error.type": event.kind}
                retry["outrider.retry.delay_ms"] = event.delay_ms
                self._open[REQUEST].add_event("retry", retry, at)
            case events.MessageEndEvent(stop_reason=reason):
                said = self._message("assistant", event.text, event.tool_calls, reason)
                answer = {"gen_ai.response.model": event.model, "gen_ai.output.messages": said}
                answer |= {"gen_ai.response.finish_reasons": [reason], **_used(event.usage)}
                self._end(REQUEST, at, answer)
            case events.ToolStartEvent():
                call: dict[str, Any] = {"gen_ai.tool.type": "function"}
                call |= {"gen_ai.tool.name": event.name, "gen_ai.tool.call.id": event.id}
                call |= {"gen_ai.tool.call.arguments": self._json(event.args)}
                self._start(f"tool {event.id}", f"execute_tool {event.name}", at, call)
            case events.ToolResultEndEvent(envelope=envelope):
                told = {"gen_ai.tool.call.result": self._json(member(envelope, "data"))}
                code = None if is_success(envelope) else str(member(envelope, "code"))
                self._end(f"tool {event.id}", at, told, code)
            case _:
                pass

    def _conclude(self, result: ToolResult, at: int) -> None:
        """End what is open, the run's own span last."""
        run, error = result.details.results[0], result.details.error
        error = None if run.outcome is Outcome.COMPLETED else error  # its text may be cut
        code, why = (str(error.code), error.message) if error else (None, None)
        ending = {"outrider.outcome": str(run.outcome), **_used(run.usage)}
        ending["gen_ai.output.messages"] = self._message("assistant", run.output)
        for key in reversed([*self._open]):
            self._end(key, at, ending if key == RUN else {}, code, why)
        _contexts.pop(self._run_id, None)

    def _asked(self) -> dict[str, Any]:
        provider, _, model = self._model.partition(":")
        named = PROVIDERS.get(provider, provider)
        return {"gen_ai.provider.name": named, "gen_ai.request.model": model or provider}

    def _message(
        self, role: str, text: str, calls: tuple[Any, ...] = (), reason: str | None = None
    ) -> str | None:
        parts: list[Any] = [{"type": "text", "content": text}] if text else []
        named = ({"id": call.id, "name": call.name, "arguments": call.args} for call in calls)
        parts += ({"type": "tool_call", **call} for call in named)
        return self._json([_known({"role": role, "parts": parts, "finish_reason": reason})])

    def _json(self, value: Any) -> str | None:
        """Return what was said, where traces are to have it."""
        return jsonl.encode(value).decode() if self._has_text else None

    def _start(self, key: str, name: str, at: int, about: dict[str, Any]) -> None:
        self._end(key, at)  # a child may say twice that it begins
        about["gen_ai.operation.name"], _, _ = name.partition(" ")
        known = _known({**about, "gen_ai.conversation.id": self._run_id})
        kind = trace.SpanKind.CLIENT if key == REQUEST else trace.SpanKind.INTERNAL
        begin, name = self._tracer.start_span, name[:MAX_NAME]
        self._open[key] = begin(name, self._context, kind, known, start_time=at)

    def _end(self, key: str, at: int, about: Any = None, code: Any = None, why: Any = None) -> None:
        if span := self._open.pop(key, None):
            span.set_attributes(_known({**(about or {}), "error.type": code}))
            if code is not None:
                span.set_status(trace.Status(trace.StatusCode.ERROR, why))
            span.end(at)


def _used(usage: Usage) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        "outrider.cost": usage.cost if usage.cost_known else None,
    }


def _known(about: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if value is not None}


@cache
def _exporting_provider() -> trace.TracerProvider:
    """Return what sends spans as OpenTelemetry's variables say; where these are wrong, nowhere."""
    try:
        return _set_up()
    except Exception as error:
        logging.getLogger("outrider").warning(UNUSABLE, error)
        return trace.NoOpTracerProvider()


def _set_up() -> trace.TracerProvider:
    """Return what sends spans from a thread of its own; raises what the SDK does."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk import resources, trace as sdk
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {"service.name": "outrider", **resources.OTELResourceDetector().detect().attributes}
    resource = resources.Resource.create(named)
    provider = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    ending, sent = threading.Event(), threading.Event()

    def send_last() -> None:
        ending.wait()
        provider.force_flush()  # which takes as long as the collector does
        sent.set()

    def finish() -> None:
        limit = os.environ.get(LIMIT, "")
        limit_ms = float(limit) if limit.isdecimal() else LIMIT_MS
        ending.set()
        with suppress(KeyboardInterrupt):
            if not sent.wait(min(limit_ms / 1000, threading.TIMEOUT_MAX)):
                logging.getLogger("outrider").warning(LOST, limit_ms, LIMIT)

    # Begun now: a process that ends can begin no thread.
    threading.Thread(target=send_last, name="outrider-spans", daemon=True).start()
    atexit.register(finish)
    return provider
