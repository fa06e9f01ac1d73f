"""Traces: what a collector gets of a run, by OpenTelemetry's conventions for generative AI."""

import json
import os
import signal
import threading
from contextlib import closing

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as conventions
from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import (
    GenAiOperationNameValues as Operation,
    GenAiProviderNameValues as Provider,
)
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE

from cli_door import Door, wait_until
from mcp_door import RawClient
from otlp_collector import Collector
from outrider import subagent
from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.delegation.spans import PROVIDERS
from outrider.models.known_providers import PROVIDERS as KNOWN_PROVIDERS
from outrider.protocol.outcomes import ERROR_OF_OUTCOME, Outcome
from outrider.runtimes.runtime import ChildExit
from outrider.testing import ScriptedModel, answer, fail, silence, tool_call, tool_calls
from test_runtime_seam import Foreign, use

GEN_AI = {value for name, value in vars(conventions).items() if name.startswith("GEN_AI_")}
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"
LOOK = tool_call("ls", {"path": "."}, id="call-1", usage=(300, 7))
SECRET = "correct-horse-battery-9f3a"


@pytest.fixture
def door(tmp_path, warm_runtime):
    with closing(Door(tmp_path, warm_runtime)) as door:
        yield door


@pytest.fixture
def collector():
    with Collector() as collector:
        yield collector


def run(door, collector, server, *options, env=None):
    words = ("run", "explorer", "Where is it?", "--model", server.model, *options)
    return door.run(*words, env={**server.environment, **collector.environment, **(env or {})})


def test_a_run_is_a_tree_of_spans_by_the_conventions(door, collector):
    said = answer("In a.py.", usage=(400, 9), model="scripted-2")
    with ScriptedModel([LOOK, said]) as server:
        details = run(door, collector, server, "--json").json["details"]
    agent = collector.run()
    first, tool, second = collector.below(agent)
    assert [one.name for one in (agent, first, tool, second)] == [
        "invoke_agent explorer",
        "chat scripted",
        "execute_tool ls",
        "chat scripted",
    ]
    assert [one.kind for one in (agent, first, tool)] == ["INTERNAL", "CLIENT", "INTERNAL"]
    assert not agent.parent and not any(one.failed for one in collector.spans)
    assert agent.begun <= first.begun <= first.ended <= tool.begun <= tool.ended <= second.begun
    assert second.begun <= second.ended <= agent.ended
    assert agent.resource["service.name"] == "outrider"
    asked = {
        conventions.GEN_AI_PROVIDER_NAME: Provider.OPENAI.value,
        conventions.GEN_AI_REQUEST_MODEL: "scripted",
        conventions.GEN_AI_CONVERSATION_ID: details["runId"],
    }
    used = details["results"][0]["usage"]
    assert agent.attributes == asked | {
        conventions.GEN_AI_OPERATION_NAME: Operation.INVOKE_AGENT.value,
        conventions.GEN_AI_AGENT_NAME: "explorer",
        conventions.GEN_AI_USAGE_INPUT_TOKENS: used["input"],
        conventions.GEN_AI_USAGE_OUTPUT_TOKENS: used["output"],
        conventions.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: 0,
        conventions.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: 0,
        "outrider.run.id": details["runId"],
        "outrider.outcome": "completed",
    }
    assert second.attributes == asked | {
        conventions.GEN_AI_OPERATION_NAME: Operation.CHAT.value,
        conventions.GEN_AI_RESPONSE_MODEL: "scripted-2",
        conventions.GEN_AI_RESPONSE_FINISH_REASONS: ["stop"],
        conventions.GEN_AI_USAGE_INPUT_TOKENS: 400,
        conventions.GEN_AI_USAGE_OUTPUT_TOKENS: 9,
        conventions.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: 0,
        conventions.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: 0,
    }
    assert first.attributes[conventions.GEN_AI_RESPONSE_FINISH_REASONS] == ["tool_call"]
    assert tool.attributes == {
        conventions.GEN_AI_OPERATION_NAME: Operation.EXECUTE_TOOL.value,
        conventions.GEN_AI_CONVERSATION_ID: details["runId"],
        conventions.GEN_AI_TOOL_NAME: "ls",
        conventions.GEN_AI_TOOL_CALL_ID: "call-1",
        conventions.GEN_AI_TOOL_TYPE: "function",
    }


def test_what_the_embedded_model_costs_is_known(door, collector):
    door.run("run", "Where?", "-m", "embedded", env=collector.environment)
    agent = collector.run()
    assert agent.attributes["outrider.cost"] == 0.0
    assert collector.below(agent)[0].name == "chat embedded"


SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
WRONG = tool_call("report_back", {"n": "six"})
OUTCOMES = {
    Outcome.COMPLETED: ([answer("Here.")], ()),
    Outcome.TIMED_OUT: ([silence()], ("--timeout", "1s")),
    Outcome.OVER_BUDGET: ([LOOK] * 3, ("--set", "subagents.budget.maxTurns=1")),
    Outcome.SCHEMA_FAILED: (
        [WRONG] * 3,
        ("--schema", SCHEMA, "--set", "subagents.reportBackAttempts=1"),
    ),
    Outcome.CHECK_FAILED: (
        [answer("Done.")] * 3,
        ("--check", "false", "--set", "subagents.checkAttempts=0"),
    ),
    Outcome.FAILED: ([fail(400)], ()),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_is_on_the_span_with_its_error_code(door, collector, outcome):
    steps, options = OUTCOMES[outcome]
    with ScriptedModel(steps) as server:
        details = run(door, collector, server, "--json", *options).json["details"]
    assert details["results"][0]["outcome"] == outcome
    agent = collector.run()
    assert agent.attributes["outrider.outcome"] == outcome
    assert agent.attributes.get(ERROR_TYPE) == ERROR_OF_OUTCOME.get(outcome)
    assert agent.failed == (outcome is not Outcome.COMPLETED)
    if agent.failed:
        assert agent.message == details["error"]["message"]


def cancelled(door, collector, server):
    """Return the exit code of a command that got Ctrl-C while its model was silent."""
    words = ("run", "Where is it?", "--model", server.model)
    command = door.start(*words, env={**server.environment, **collector.environment})
    server.wait_for_requests(1)
    command.send_signal(signal.SIGINT)
    command.communicate()
    return command.returncode


def test_a_cancelled_run_has_its_spans(door, collector):
    with ScriptedModel([silence()]) as server:
        assert cancelled(door, collector, server) == 130
    agent = collector.run()
    assert agent.attributes["outrider.outcome"] == "cancelled"
    assert agent.attributes[ERROR_TYPE] == "SUBAGENT_CANCELLED"
    [request] = collector.below(agent)
    assert request.failed and request.attributes[ERROR_TYPE] == "SUBAGENT_CANCELLED"


def test_a_retry_is_an_event_on_the_span_of_its_request(door, collector):
    with ScriptedModel([fail(429, retry_after=0), answer("Here.")]) as server:
        assert run(door, collector, server).code == 0
    [request] = collector.below(collector.run())
    [(name, about, at)] = request.events
    assert (name, about[ERROR_TYPE], about["outrider.retry.attempt"]) == ("retry", "rate_limit", 2)
    assert about["outrider.retry.delay_ms"] >= 0
    assert request.begun <= at <= request.ended and not request.failed


def test_a_child_that_was_killed_has_its_spans_too(door, collector):
    with ScriptedModel([LOOK, silence()]) as server:
        words = ("run", "explorer", "Where?", "--json", "--model", server.model)
        command = door.start(*words, env={**server.environment, **collector.environment})
        server.wait_for_requests(2)
        [child] = [one for one in door.processes() if one.name() == "outrider-child"]
        child.kill()
        out, _ = command.communicate()
    assert command.returncode == 128 + signal.SIGKILL, out
    agent = collector.run()
    done, tool, open_still = collector.below(agent)
    assert (agent.attributes["outrider.outcome"], agent.failed) == ("failed", True)
    assert not done.failed and not tool.failed
    assert open_still.failed and open_still.attributes[ERROR_TYPE] == "SUBAGENT_FAILED"
    assert open_still.ended == agent.ended


def test_a_tool_call_that_fails_has_its_code(door, collector):
    with ScriptedModel([tool_call("read", {"path": "nowhere.py"}), answer("No.")]) as server:
        assert run(door, collector, server).code == 0
    _, tool, _ = collector.below(collector.run())
    assert (tool.name, tool.failed) == ("execute_tool read", True)
    assert tool.attributes[ERROR_TYPE] == "1003"


def test_what_a_chat_delegates_is_below_its_span(door, collector):
    calls = [("subagent", {"agent": "explorer", "task": f"Question {n}"}) for n in (1, 2)]
    steps = [tool_calls(calls), answer("Both are in a.py.")]

    def script(request):
        is_main = "main agent" in request.messages[0]["content"]
        return steps.pop(0) if is_main else answer("In a.py.")

    with ScriptedModel(script) as server:
        env = {**server.environment, **collector.environment}
        assert door.run("ask", "Where?", "--model", server.model, env=env).code == 0
    chat = collector.run("main")
    below = [one.name for one in collector.below(chat)]
    names = ["chat scripted", "execute_tool subagent", "invoke_agent explorer"]
    assert sorted(below) == sorted([*names, *names])
    for child in collector.below(chat):
        if child.name == "invoke_agent explorer":
            assert child.trace == chat.trace and child.begun >= chat.begun
            assert [one.name for one in collector.below(child)] == ["chat scripted"]


def test_each_item_of_a_map_has_its_spans_in_the_caller_s_trace(door, collector):
    """Those that run at once don't get below each other, nor take each other's requests."""
    (door.project / "items").write_text('One\nTwo\nThree\nFour\n{"task":\n')
    limited = threading.Event()

    def script(request):
        match request.last_user_text:
            case "Two":
                return fail(400)
            case "Three" if not limited.is_set():
                limited.set()
                return fail(429, retry_after=0)
            case "Four" if request.turn == 0:
                return LOOK
            case asked:
                return answer(f"On {asked}.", usage=(len(asked), 1))

    words = ("map", "explorer", "items", "--concurrency", "2")
    with ScriptedModel(script) as server:
        env = {**server.environment, **collector.environment, "TRACEPARENT": TRACEPARENT}
        ended = door.run(*words, "--model", server.model, env=env)
    rows = {row.get("task"): row for row in map(json.loads, ended.out.splitlines())}
    assert rows.pop(None)["outcome"] == "refused"
    wait_until(lambda: len(collector.runs()) == len(rows) == 4)
    runs = {run.attributes["outrider.run.id"]: run for run in collector.runs()}
    for task, row in rows.items():
        agent = runs[row["runId"]]
        assert (agent.trace, agent.parent) == (TRACE, CALLER)
        assert agent.attributes["outrider.outcome"] == row["outcome"]
        assert agent.attributes.get(ERROR_TYPE) == row.get("error", {}).get("code")
        used = agent.attributes[conventions.GEN_AI_USAGE_INPUT_TOKENS]
        assert used == row["usage"]["input"]
        below = [one.name for one in collector.below(agent)]
        looked = ["execute_tool ls", "chat scripted"] if task == "Four" else []
        assert below == ["chat scripted", *looked]
        retries = [one for span in collector.below(agent) for one in span.events]
        assert len(retries) == (task == "Three")
    # The item that was refused has no run, and no run has anything of its neighbours.
    assert len(collector.spans) == 4 + 4 + 2


def test_the_caller_s_trace_goes_on_from_the_environment(door, collector):
    with ScriptedModel([answer("Here.")]) as server:
        assert run(door, collector, server, env={"TRACEPARENT": TRACEPARENT}).code == 0
    agent = collector.run()
    assert (agent.trace, agent.parent) == (TRACE, CALLER)


@pytest.mark.parametrize("wrong", ["", "00-zz-yy-01", "x" * 100_000])
def test_a_trace_that_nobody_can_go_on_with_is_no_reason_to_fail(door, collector, wrong):
    with ScriptedModel([answer("Here.")]) as server:
        assert run(door, collector, server, env={"TRACEPARENT": wrong}).code == 0
    assert not collector.run().parent


def test_a_trace_that_is_not_sampled_stays_so(door, collector):
    headers = {"TRACEPARENT": TRACEPARENT[:-1] + "0"}
    with ScriptedModel([answer("Here."), answer("Here.")]) as server:
        assert run(door, collector, server, env=headers).code == 0
        assert run(door, collector, server).code == 0
    assert collector.run().trace != TRACE


@pytest.mark.parametrize("background", [False, True])
def test_the_trace_of_an_mcp_client_goes_on(door, collector, background):
    with ScriptedModel([answer("Here.")]) as server:
        env = {"OUTRIDER_MODEL": server.model, **server.environment, **collector.environment}
        client = RawClient(door, env)
        client.initialize()
        task = {"agent": "explorer", "task": "Where?", "background": background}
        client.call("subagent", task, traceparent=TRACEPARENT, tracestate="vendor=1")
        if background:
            wait_until(lambda: collector.spans)
        assert client.close() == 0
    agent = collector.run()
    assert (agent.trace, agent.parent) == (TRACE, CALLER)


def test_a_background_run_sends_its_spans_before_its_process_ends(door, collector):
    with ScriptedModel([LOOK, answer("Here.")]) as server:
        ended = run(door, collector, server, "--bg", env={"TRACEPARENT": TRACEPARENT})
        assert door.run("wait", ended.out.strip()).code == 0
    agent = collector.run()
    assert (agent.trace, agent.attributes["outrider.run.id"]) == (TRACE, ended.out.strip())
    assert len(collector.below(agent)) == 3


PROGRAM = """
import asyncio, sys
from opentelemetry import trace
from outrider import subagent
{set_up}
async def main():
    with {span} as span:
        print(format(span.get_span_context().span_id, "016x"))
        result = await subagent("explorer", "Where?", model=sys.argv[1])
        assert result.completed, result.text
        print(*result.result.warnings)
asyncio.run(main())
"""
OWN = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
class Exporter(SpanExporter):
    def export(self, spans):
        print(*(f"{one.name}:{one.parent and one.parent.span_id:016x}" for one in spans), sep="\\n")
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Exporter()))
trace.set_tracer_provider(provider)
"""
IN_A_SPAN = 'trace.get_tracer("program").start_as_current_span("work")'


def program(door, server, env, set_up, span):
    """Return what a Python program says that delegates inside of a span."""
    path = door.project / "program.py"
    path.write_text(PROGRAM.format(set_up=set_up, span=span))
    script = f'"$0" program.py {server.model}'
    words = " ".join(f"{name}='{value}'" for name, value in {**server.environment, **env}.items())
    ended = door.shell(f"{words} {script}")
    assert ended.code == 0, ended.err
    return ended.out.splitlines()


def test_the_current_span_of_a_program_is_above_and_its_own_provider_takes_the_spans(door):
    with ScriptedModel([answer("Here.")]) as server:
        env = {"OUTRIDER_TELEMETRY__ENABLED": "true"}
        span, *told = program(door, server, env, OWN, IN_A_SPAN)
    [agent] = [one for one in told if one.startswith("invoke_agent explorer:")]
    assert agent.endswith(span)
    assert any(one.startswith("chat scripted:") for one in told)


def test_a_program_without_a_provider_of_its_own_sends_spans_all_the_same(door, collector):
    context = f"trace.SpanContext(0x{TRACE}, 0x{CALLER}, True, trace.TraceFlags(1))"
    span = f"trace.use_span(trace.NonRecordingSpan({context}))"
    with ScriptedModel([answer("Here.")]) as server:
        # `use_span` yields nothing, unlike a tracer.
        program(
            door,
            server,
            collector.environment,
            "import contextlib\n"
            "@contextlib.contextmanager\n"
            f"def inside():\n    with {span}:\n        yield trace.get_current_span()",
            "inside()",
        )
    agent = collector.run()
    assert (agent.trace, agent.parent) == (TRACE, CALLER)


TEXTS = {
    conventions.GEN_AI_INPUT_MESSAGES,
    conventions.GEN_AI_OUTPUT_MESSAGES,
    conventions.GEN_AI_TOOL_CALL_ARGUMENTS,
    conventions.GEN_AI_TOOL_CALL_RESULT,
}
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def test_text_is_in_spans_only_where_it_is_asked_for_and_then_masked(door, collector):
    (door.project / "a.py").write_text(f"# {SECRET}\n")
    steps = [tool_call("read", {"path": "a.py"}), answer(f"The deploy token is {SECRET}.")]
    env = {"DEPLOY_TOKEN": SECRET}
    with ScriptedModel(steps * 2) as server:
        assert run(door, collector, server, env=env).code == 0
        assert not any(TEXTS & span.attributes.keys() for span in collector.spans)
        assert "Where is it?" not in str(collector.spans)
        collector.spans.clear()
        assert run(door, collector, server, env={**env, CAPTURE: "true"}).code == 0
    agent = collector.run()
    assert SECRET not in str(collector.spans)
    _, tool, last = collector.below(agent)
    [asked] = json.loads(agent.attributes[conventions.GEN_AI_INPUT_MESSAGES])
    assert asked == {"role": "user", "parts": [{"type": "text", "content": "Where is it?"}]}
    [said] = json.loads(last.attributes[conventions.GEN_AI_OUTPUT_MESSAGES])
    assert said["finish_reason"] == "stop" and "[masked" in said["parts"][0]["content"]
    assert json.loads(tool.attributes[conventions.GEN_AI_TOOL_CALL_ARGUMENTS]) == {"path": "a.py"}
    assert "[masked" in tool.attributes[conventions.GEN_AI_TOOL_CALL_RESULT]
    assert set().union(*(span.attributes for span in collector.spans)) - GEN_AI == {
        "outrider.run.id",
        "outrider.outcome",
    }


def test_a_collector_that_never_answers_holds_nobody_up(door):
    with Collector(hangs=True) as collector, ScriptedModel([answer("Here.")]) as server:
        ended = run(door, collector, server, env={"OTEL_BSP_EXPORT_TIMEOUT": "3000"})
        # The collector holds the request still: the command has gone without an answer.
        assert collector.held
    assert (ended.code, ended.out) == (0, "Here.\n")
    assert "the collector did not take the last spans" in ended.err


@pytest.mark.parametrize("status", [400, 503])
def test_a_collector_that_refuses_spans_fails_no_run(door, status):
    with Collector(status=status) as collector, ScriptedModel([answer("Here.")]) as server:
        ended = run(door, collector, server, env={"OTEL_BSP_EXPORT_TIMEOUT": "3000"})
    assert (ended.code, ended.out) == (0, "Here.\n")
    assert "Traceback" not in ended.err and "opentelemetry" not in ended.err


@pytest.mark.parametrize("way", ["drops", "floods"])
@pytest.mark.parametrize("status", [200, 500])
def test_a_collector_that_drops_or_floods_its_callers_fails_no_run(door, way, status):
    with (
        Collector(status=status, drops=way == "drops", floods=way == "floods") as collector,
        ScriptedModel([answer("Here.")]) as server,
    ):
        ended = run(door, collector, server, env={"OTEL_BSP_EXPORT_TIMEOUT": "3000"})
        assert collector.headers
    assert (ended.code, ended.out) == (0, "Here.\n")
    assert "Traceback" not in ended.err and "opentelemetry" not in ended.err


WRONG_VARIABLES = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "not an address",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "gopher://[::1",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
    "OTEL_EXPORTER_OTLP_HEADERS": "=,;=\x01",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "zip",
    "OTEL_EXPORTER_OTLP_CERTIFICATE": "/none/ca.pem",
    "OTEL_BSP_SCHEDULE_DELAY": "-1",
    "OTEL_BSP_MAX_QUEUE_SIZE": "0",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "many",
    "OTEL_BSP_EXPORT_TIMEOUT": "99999999999999999999",
    "OTEL_TRACES_SAMPLER": "nonsense",
    "OTEL_TRACES_SAMPLER_ARG": "2",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "-1",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "x",
    "OTEL_RESOURCE_ATTRIBUTES": "=,garbage,%zz",
    "OTEL_PROPAGATORS": "nonsense",
    "OTEL_PYTHON_CONTEXT": "nonsense",
    "OTEL_PYTHON_TRACER_PROVIDER": "nonsense",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER": "nonsense",
}


UNREACHABLE = {
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
}


@pytest.mark.parametrize("name", WRONG_VARIABLES)
def test_a_wrong_variable_of_the_sdk_costs_no_run(door, collector, name):
    with ScriptedModel([answer("Here.")]) as server:
        ended = run(door, collector, server, env={name: WRONG_VARIABLES[name]})
    assert (ended.code, ended.out) == (0, "Here.\n")
    assert "Traceback" not in ended.err
    assert collector.spans or "no traces" in ended.err or name in UNREACHABLE


async def test_a_provider_that_is_not_installed_costs_no_later_run_either(world, monkeypatch):
    monkeypatch.setenv("OTEL_PYTHON_TRACER_PROVIDER", "nonsense")
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert (await subagent("explorer", "Look.", model="embedded")).completed


def test_no_collector_at_all_fails_no_run(door, collector):
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_EXPORT_TIMEOUT": "100"}
    with ScriptedModel([answer("Here.")]) as server:
        ended = run(door, collector, server, env=env)
    assert (ended.code, ended.out) == (0, "Here.\n")


def test_a_background_run_ends_although_its_collector_never_answers(door):
    with Collector(hangs=True) as collector, ScriptedModel([answer("Here.")]) as server:
        limit = {"OTEL_BSP_EXPORT_TIMEOUT": "3000"}
        run_id = run(door, collector, server, "--bg", env=limit).out.strip()
        assert door.run("wait", run_id).out == "Here.\n"
        door.assert_nothing_left()
        assert collector.held


def test_the_sdk_can_be_switched_off(door, collector):
    with ScriptedModel([answer("Here."), answer("Here.")]) as server:
        assert run(door, collector, server, env={"OTEL_SDK_DISABLED": "TRUE"}).code == 0
        assert run(door, collector, server).code == 0
    collector.run()  # the second one alone


def test_a_repository_cannot_switch_traces_on_or_off(door):
    for value in (True, False):
        path = door.project / ".outrider/config.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"telemetry": {"enabled": value}}))
        config = door.run("config", "--json").json
        assert config["values"]["telemetry.enabled"] == {"value": False, "origin": "default"}
        assert "telemetry.enabled" in str(config["warnings"])


WITHOUT = """
import sys
sys.modules["opentelemetry.exporter.otlp.proto.http"] = None
sys.argv[0] = "outrider"
from outrider.__main__ import main
sys.exit(main())
"""


def test_without_the_extra_there_is_one_warning_and_the_run_goes_on(door, collector):
    (door.project / "without.py").write_text(WITHOUT)
    script = '"$0" without.py run "Where?" -m embedded'
    ended = door.shell(f"OTEL_EXPORTER_OTLP_ENDPOINT={collector.address} {script}")
    assert ended.code == 0
    assert ended.err.count("outrider[otel]") == 1
    assert not collector.spans


def test_doctor_says_whether_there_are_traces_and_where_they_go(door, collector):
    def found(**env):
        checks = door.run("doctor", "--json", env=env).json["checks"]
        return next((one["status"], one["message"]) for one in checks if one["name"] == "telemetry")

    status, words = found()
    assert status == "off" and "OTEL_EXPORTER_OTLP_ENDPOINT" in words
    assert found(**collector.environment) == ("ok", f"traces go to {collector.address}")
    assert not collector.spans  # of the task that it tries itself
    status, words = found(OUTRIDER_TELEMETRY__ENABLED="true")
    assert (status, words) == ("ok", "traces go to http://localhost:4318")


def test_the_headers_for_the_collector_do_not_reach_a_child(door, collector):
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": f"x-vendor-key={SECRET}"}
    door.write_agent("shell", "tools: bash")
    door.write_config({"subagents": {"allowWrite": True, "trustedProjects": ["/"]}})
    steps = [tool_call("bash", {"command": "env"}), answer("Seen.")]
    with ScriptedModel(steps) as server:
        words = ("run", "shell", "Look.", "--model", server.model)
        env = {**server.environment, **collector.environment, **headers}
        assert door.run(*words, env=env).code == 0
        seen = server.requests[1].messages[-1]["content"]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in seen
    assert "OTLP_HEADERS" not in seen and SECRET not in seen
    collector.run("shell")
    assert collector.headers[0]["x-vendor-key"] == SECRET


def test_providers_have_the_names_of_the_conventions():
    known = {one.value for one in Provider} | {"moonshot_ai"}
    assert PROVIDERS.keys() <= KNOWN_PROVIDERS.keys()
    assert set(PROVIDERS.values()) <= known


class Sender(Foreign):
    """A runtime that sends these objects, whatever they say, and finishes."""

    async def run(self, brief, environment, listener):
        for data in (*self._events, {"type": "task_finish", "outcome": "completed", "at": 9}):
            listener.on_events(json.dumps(data).encode() + b"\n")
        return ChildExit(started=True)


@pytest.fixture
def memory(world, monkeypatch):
    """What takes spans in this process, as that of a program would."""
    monkeypatch.setenv("OUTRIDER_TELEMETRY__ENABLED", "true")
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for module in ("telemetry", "spans"):
        monkeypatch.setattr(f"outrider.delegation.{module}.own_provider", lambda: provider)
    return exporter


async def test_a_child_that_lies_about_its_spans_harms_nobody(memory, monkeypatch):
    call = {"type": "tool_start", "id": "1", "name": "x" * 10_000, "args": {}, "timeoutMs": 1}
    lies = [
        {"type": "turn_start", "turn": 1, "at": -(10**30)},
        {"type": "session", "runId": "", "agent": "a", "model": ":", "cwd": "", "at": 10**30},
        {"type": "turn_start", "turn": 2, "at": 10**30},
        {"type": "turn_start", "turn": 3, "at": "soon"},
        {**call, "at": 3},
        {**call, "at": 2},
        {"type": "tool_result_end", "id": "2", "name": "ls", "envelope": 5, "at": 4},
        {"type": "tool_result_end", "id": "1", "name": "ls", "envelope": {"code": []}, "at": 4},
    ]
    use(monkeypatch, Sender(*lies))
    result = await subagent("explorer", "Look.", model="embedded")
    assert result.completed
    *others, run = memory.get_finished_spans()
    assert run.name == "invoke_agent explorer"
    assert [one.name[:6] for one in others] == ["chat e", "execut", "execut", "chat "]
    for span in (*others, run):
        assert run.start_time <= span.start_time <= span.end_time <= run.end_time
        assert len(span.name) <= 200


async def test_a_broken_way_for_spans_fails_no_run(memory, monkeypatch, caplog):
    def broken(*_given, **_options):
        raise RuntimeError("no tracer today")

    monkeypatch.setattr(TracerProvider, "get_tracer", broken)
    use(monkeypatch, Sender({"type": "turn_start", "turn": 1, "at": 0}))
    assert (await subagent("explorer", "Look.", model="embedded")).completed
    assert caplog.text.count("Traceback") == 1  # it isn't tried with each event


async def test_a_caller_can_say_what_its_runs_are_below(memory, monkeypatch):
    use(monkeypatch, Sender())
    caller = Caller({**os.environ}, above={"traceparent": TRACEPARENT})
    assert (await perform(Request("explorer", "Look.", model="embedded"), caller)).completed
    [run] = memory.get_finished_spans()
    assert (f"{run.context.trace_id:032x}", f"{run.parent.span_id:016x}") == (TRACE, CALLER)
