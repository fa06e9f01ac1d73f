"""Whatever stands on pi's lines, it becomes events of ours or nothing, and never a success."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from outrider.protocol.brief import Brief, BudgetLimits
from outrider.protocol.events import (
    MessageEndEvent,
    MessageUpdateEvent,
    RetryEvent,
    SessionEvent,
    TaskFinishEvent,
    ToolResultEndEvent,
)
from outrider.protocol.outcomes import Outcome
from outrider.runtimes.pi.choices import choose_pi_model, model_options
from outrider.runtimes.pi.events import Translator
from outrider.runtimes.pi.runtime import Relay


def brief(**more: Any) -> Brief:
    return Brief("12345678", "finder", "", "", "mine:scripted", "/", **more)


def said(text: str = "Done.", reason: str = "stop", **more: Any) -> list[dict[str, Any]]:
    usage = {"input": 7, "output": 3, "cacheRead": 2, "cost": {"total": 0.5}}
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "usage": usage}
    begun = {**message, "content": [], "stopReason": "pending"}
    return [
        {"type": "turn_start"},
        {"type": "message_start", "message": begun},
        {"type": "message_end", "message": {**message, "stopReason": reason, **more}},
        {"type": "turn_end"},
    ]


def translated(translator: Translator, *lines: Any) -> list[Any]:
    raw = (json.dumps(line, separators=(",", ":")).encode() for line in lines)
    return [event for line in raw for event in translator.events(line)]


END = {"type": "agent_end", "messages": []}


def test_an_answer_counts_once_pi_has_ended_its_work() -> None:
    translator = Translator(brief())
    translated(translator, *said())
    assert translator.end(0) is None
    translated(translator, END)
    finish = translator.end(0)
    assert finish is not None and finish.outcome is Outcome.COMPLETED
    assert (finish.usage.input, finish.usage.output, finish.usage.turns) == (9, 3, 1)


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("", "stop", "empty"),
        ("Half", "length", "token limit"),
        ("Some", "error", "doesn't say why"),
        ("Some", "aborted", "doesn't say why"),
        ("Some", "", "doesn't say why"),
        ("Some", "pending", "doesn't say why"),
    ],
)
def test_no_other_end_is_a_success(text: str, reason: str, words: str) -> None:
    translator = Translator(brief())
    translated(translator, *said("Looking."), *said(text, reason), END)
    finish = translator.end(0)
    assert finish is not None and finish.outcome is Outcome.FAILED
    assert words in (finish.error or "")


def test_a_pi_that_fails_after_a_whole_message_gets_no_reason_from_that() -> None:
    translator = Translator(brief())
    translated(translator, *said("Done."), END)
    assert translator.end(1) is None


def test_an_end_that_nobody_knows_is_named() -> None:
    translator = Translator(brief())
    translated(translator, *said("Some", "nobody_knows"), END)
    finish = translator.end(0)
    assert finish is not None and finish.outcome is Outcome.FAILED
    assert "'nobody_knows'" in (finish.error or "") and finish.task_result == "Some"


@pytest.mark.parametrize("text", ["<think>Hm.</think>", "<think>Hm", "\u200b\u2066"])
def test_an_answer_that_says_nothing_is_empty(text: str) -> None:
    translator = Translator(brief())
    translated(translator, *said(text), END)
    finish = translator.end(0)
    assert finish is not None and "empty" in (finish.error or "")


def test_a_thought_is_no_part_of_the_answer() -> None:
    translator = Translator(brief())
    translated(translator, *said("<think>Hm.</think> Done."), END)
    finish = translator.end(0)
    assert finish is not None and finish.task_result == translator.answer == "Done."


ODD_USAGE: list[Any] = [
    None, "lots", [], {}, {"input": 0.5, "output": 3}, {"input": "7", "output": 3},
    {"input": -7, "output": 3}, {"input": 1e30, "output": 3}, {"input": 7, "output": None},
    {"input": 7, "output": 3, "cacheRead": 0.5}, {"input": True, "output": False},
]  # fmt: skip


@pytest.mark.parametrize("usage", ODD_USAGE, ids=str)
def test_tokens_that_were_not_counted_are_estimated(usage: Any) -> None:
    translator = Translator(brief())
    events = translated(translator, *said("a" * 400, usage=usage), END)
    [message] = [event for event in events if isinstance(event, MessageEndEvent)]
    finish = translator.end(0)
    assert finish is not None and finish.outcome is Outcome.COMPLETED
    assert finish.usage == message.usage and finish.usage.estimated
    assert finish.usage.output in (3, 100)


def test_a_budget_of_tokens_holds_without_counts() -> None:
    translator = Translator(brief(budget=BudgetLimits(max_tokens=150)))
    events = translated(translator, *said("a" * 800, usage=None), *said())
    assert [one.outcome for one in events if isinstance(one, TaskFinishEvent)] == ["over_budget"]


def test_a_last_message_that_calls_a_tool_is_no_end() -> None:
    translator = Translator(brief())
    translated(translator, *said("I'll look.", "toolUse"), END)
    assert translator.end(0) is None


@pytest.mark.parametrize(("output", "words"), [(0, "may be incomplete"), (3, "")])
def test_an_older_pi_that_got_no_usage_is_not_believed(output: int, words: str) -> None:
    translator = Translator(brief())
    start, begun, end, turn_end = said(usage={"input": 0, "output": output})
    begun["message"]["stopReason"] = "stop"
    translated(translator, start, begun, end, turn_end, END)
    finish = translator.end(0)
    assert finish is not None and words in (finish.error or "")
    assert (finish.outcome is Outcome.COMPLETED) == bool(output)


def test_the_model_that_answers_is_told() -> None:
    model = {"provider": "other", "model": "real"}
    message = {"type": "message_start", "message": {"role": "assistant", **model}}
    event = translated(Translator(brief()), message)[0]
    assert isinstance(event, SessionEvent) and event.model == "other:real"


def test_a_request_is_repeated_as_often_as_allowed() -> None:
    translator = Translator(brief(request_attempts=2))
    failure = {"type": "auto_retry_start", "delayMs": 5, "errorMessage": "429 too many"}
    (first,) = translated(translator, {**failure, "attempt": 1})
    (second,) = translated(translator, {**failure, "attempt": 2})
    assert isinstance(first, RetryEvent) and first.kind == "rate_limit"
    assert isinstance(second, TaskFinishEvent) and second.error == "429 too many"


def test_a_budget_of_money_needs_a_price() -> None:
    translator = Translator(brief(budget=BudgetLimits(max_cost=1.0)))
    free = {"input": 5, "output": 5, "cost": {"total": 0}}
    events = translated(translator, *said(usage=free))
    assert any("price" in (one.error or "") for one in events if isinstance(one, TaskFinishEvent))


@pytest.mark.parametrize(
    ("name", "args", "result", "error", "effects"),
    [
        ("read", {"path": "a"}, "x", False, ("a", (), ())),
        ("read", {"path": "a"}, "x", True, ("", (), ())),
        ("write", {"path": "a"}, "x", False, ("", ("a",), ())),
        ("bash", {"command": "c"}, "x", False, ("", (), (("c", 0),))),
        ("bash", {"command": "c"}, "\nCommand exited with code 3", True, ("", (), (("c", 3),))),
        ("bash", {"command": "c"}, "Command aborted", True, ("", (), (("c", None),))),
    ],
)
def test_the_receipt_has_what_pi_reports(
    name: str, args: Any, result: str, error: bool, effects: Any
) -> None:
    call = {"toolCallId": "1", "toolName": name}
    content = [{"type": "text", "text": result}]
    event = translated(
        Translator(brief()),
        {"type": "tool_execution_start", **call, "args": args},
        {"type": "tool_execution_end", **call, "result": {"content": content}, "isError": error},
    )[-1]
    assert isinstance(event, ToolResultEndEvent)
    did = event.effects
    read, written, ran = effects
    assert did.files_read == ((read,) if read else ())
    assert tuple(one.path for one in did.files_written) == written
    assert tuple((one.command, one.exit_code) for one in did.commands) == ran


TYPES = st.sampled_from(
    [
        "session",
        "turn_start",
        "turn_end",
        "message_start",
        "message_update",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "auto_retry_start",
        "agent_end",
        "agent_settled",
        "task_finish",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "usage",
                    "stopReason",
                    "args",
                    "result",
                    "attempt",
                    "delayMs",
                    "cost",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
FIELDS = ("message", "assistantMessageEvent", "toolCallId", "args", "result", "attempt", "delayMs")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(st.lists(st.tuples(TYPES, st.dictionaries(st.sampled_from(FIELDS), JSON)), max_size=8))
def test_no_line_raises_and_none_forges_a_finish(lines: list[tuple[str, dict[str, Any]]]) -> None:
    translator = Translator(brief())
    for kind, fields in lines:
        for event in translated(translator, {"type": kind, **fields}):
            finished = isinstance(event, TaskFinishEvent)
            assert not finished or event.outcome is not Outcome.COMPLETED


@pytest.mark.parametrize("line", [b"", b"words", b"[1]", b"null", b'{"type": 7}', b"[" * 100_000])
def test_what_is_no_event_is_nothing(line: bytes) -> None:
    assert list(Translator(brief()).events(line)) == []


class Heard:
    """A listener that keeps all it is told."""

    def __init__(self) -> None:
        self.data = b""

    def on_link(self, send: Any) -> None: ...

    def on_errors(self, data: bytes) -> None: ...

    def on_events(self, data: bytes) -> None:
        self.data += data


def test_lines_are_translated_however_they_are_cut_and_junk_still_counts() -> None:
    text = "".join(json.dumps(line) + "\n" for line in said())
    for size in (1, 7, 10_000):
        heard = Heard()
        relay = Relay(heard, Translator(brief()), 1_000)
        for start in range(0, len(text), size):
            relay.on_events(text[start : start + size].encode())
        assert b'"message_end"' in heard.data and b"Done." in heard.data
    heard = Heard()
    Relay(heard, Translator(brief()), 1_000).on_events(b"junk " * 100 + b"\n")
    assert len(heard.data) == 501 and not heard.data.strip()


def test_a_line_without_end_is_handed_on_and_a_repetition_is_not_held() -> None:
    heard = Heard()
    relay = Relay(heard, Translator(brief()), 1_000)
    for _ in range(100):
        relay.on_events(b"x" * 100)
    assert len(heard.data) > 1_000
    heard = Heard()
    translator = Translator(brief())
    relay = Relay(heard, translator, 1_000)
    relay.on_events("".join(json.dumps(line) + "\n" for line in said()).encode())
    relay.on_events(b'{"type":"agent_end","messages":[')
    for _ in range(100):
        relay.on_events(b"x" * 100)
    relay.on_events(b"]}\n")
    finish = translator.end(0)
    assert finish is not None and finish.outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("given", "expected", "options"),
    [
        ("openai-chat:gpt", "openai-chat:gpt", ["--provider", "openai", "--model", "gpt"]),
        ("mine/a:b", "mine:a:b", ["--provider", "mine", "--model", "a:b"]),
        ("openrouter:x/y", "openrouter:x/y", ["--provider", "openrouter", "--model", "x/y"]),
    ],
)
def test_a_model_is_written_as_ours_or_as_pis(
    given: str, expected: str, options: list[str]
) -> None:
    choice = choose_pi_model(given, None, None, {"HOME": "/none"})
    assert choice.model == expected and choice.problem is None
    assert model_options(choice.model) == options


def test_without_a_model_pis_settings_count_then_a_key_then_pi_itself(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "MISTRAL_API_KEY": "k", "GROQ_API_KEY": "g"}
    choice = choose_pi_model(None, None, None, env)
    assert (choice.model, model_options(choice.model)) == ("mistral:", [])
    assert "GROQ_API_KEY" not in choice.environment(env)
    folder = tmp_path / ".pi/agent"
    folder.mkdir(parents=True)
    settings = {"defaultProvider": "mine", "defaultModel": "m"}
    (folder / "settings.json").write_text(json.dumps(settings))
    assert choose_pi_model(None, None, None, env).model == "mine:m"
    assert choose_pi_model(None, None, None, {"HOME": "/none"}).model == "pi:"


@pytest.mark.parametrize("sample", ["pi-0.73.1", "pi-0.87.1"])
def test_deltas_of_both_formats_become_text(sample: str) -> None:
    piece = {"type": "text_delta", "contentIndex": 0, "delta": "Hel"}
    if sample == "pi-0.73.1":
        piece["partial"] = {"content": [{"type": "text", "text": "Hello"}]}
    update = {"type": "message_update", "assistantMessageEvent": piece}
    thought = {**update, "assistantMessageEvent": {"type": "thinking_delta", "delta": "Hm"}}
    events = translated(Translator(brief()), update, thought)
    assert [one.delta for one in events if isinstance(one, MessageUpdateEvent)] == ["Hel", ""]
    assert not any(isinstance(one, MessageEndEvent) for one in events)
