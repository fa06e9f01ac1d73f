"""Every call ends in an envelope with its meta, whatever the tool or its caller did."""

import asyncio
import dataclasses
import enum
import itertools
import json
import threading
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from outrider.masking import Masker
from outrider.protocol.envelope import ToolFault
from outrider.protocol.jsonl import decode, encode
from outrider.protocol.receipt import MAX_ENTRIES, Receipt
from outrider.schemas.arguments import read_arguments
from outrider.tools import tool
from outrider.tools.context import EffectsRecorder, ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.formatting import Formatter, ResultFormatter
from outrider.tools.registry import collect_tools

META = {"execution_time_ms", "tool", "resource_type", "session_id", "temporary_session"}


def executor(*functions: Any, context: ToolContext | None = None, **options: Any) -> ToolExecutor:
    context = context or ToolContext(cwd=Path("/"))
    return ToolExecutor(collect_tools(list(functions)), context, **options)


async def returned(value: Any, **options: Any) -> Any:
    """What becomes of a value that a tool returns or raises."""

    @tool("some:thing", **options)
    async def thing() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return await executor(thing).execute("some_thing", {})


@tool("some:echo", writes=False)
async def echo(text: str, times: int = 1) -> str:
    """Say it again."""
    return text * times


async def test_meta_is_always_whole():
    tools = executor(echo)
    for name, arguments in [("some_echo", {"text": "a"}), ("some_echo", {}), ("nothing", "{")]:
        meta = (await tools.execute(name, arguments)).envelope["meta"]
        assert set(meta) == META
        assert meta["tool"] == name and meta["execution_time_ms"] >= 0
        assert meta["session_id"] is None and meta["temporary_session"] is False
    assert meta["resource_type"] is None


@pytest.mark.parametrize(
    ("value", "code", "data"),
    [
        ({"code": 0, "data": {"image": "…"}}, 0, {"image": "…"}),
        ({"result": 1}, 0, {"result": 1}),
        ("bare", 0, "bare"),
        (None, 0, None),
        ([1, (2, {3})], 0, [1, [2, [3]]]),
        ({"code": "print(1)"}, 0, {"code": "print(1)"}),
        ({"code": "print(1)", "language": "py"}, 0, {"code": "print(1)", "language": "py"}),
        ({"code": 0}, 0, None),
        ({"code": 1003, "message": "no", "hint": "h"}, 1003, {"hint": "h"}),
        ({"code": 1100}, 1100, None),
        ({"code": 7, "body": "x"}, 7, {"body": "x"}),
        ({"code": 1999, "message": "no"}, 1999, None),
        ({"code": 2999, "message": "no"}, 2999, None),
        ({"code": 5001, "message": "no"}, 5001, None),
        ({"code": 404, "message": "no"}, 404, None),
        ({"code": -1, "data": [1]}, -1, [1]),
        ({"code": 77}, 77, None),
        ({"code": "X1", "message": "no"}, 5000, None),
        ({"code": 1.0, "data": 1}, 5000, 1),
        ({"code": True, "data": 1}, 5000, 1),
        ({"code": None, "message": "no"}, 5000, None),
        (TimeoutError(), 2002, None),
        (TimeoutError("slow"), 2002, None),
        (ValueError("bad\nTraceback"), 5000, None),
        (SystemExit(3), 5000, None),
        (asyncio.CancelledError(), 5000, None),
        (StopIteration(), 5000, None),
    ],
)
async def test_whatever_a_tool_gives_becomes_the_right_envelope(value: Any, code: int, data: Any):
    envelope = (await returned(value)).envelope
    assert envelope["code"] == code
    assert envelope["data"] == data
    assert envelope["message"] and "Traceback" not in envelope["message"]


@pytest.mark.parametrize(
    ("value", "message", "line"),
    [
        ({"code": 1003}, "not found", "Error 1003: not found"),
        ({"code": 1100, "message": "gone"}, "gone", "Error 1100 (the caller's error): gone"),
        ({"code": 2999, "message": "down"}, "down", "Error 2999 (a service's error): down"),
        ({"code": 77, "message": "odd"}, "odd", "Error 77 (a system error): odd"),
        ({"code": 1100}, "the caller's error", "Error 1100: the caller's error"),
        ({"code": -1}, "a system error", "Error -1: a system error"),
    ],
)
async def test_a_code_that_is_not_in_the_table_is_a_failure_of_its_range(
    value: Any, message: str, line: str
):
    outcome = await returned(value)
    assert outcome.envelope["message"] == message
    assert outcome.text == line


async def test_a_code_that_is_not_an_integer_is_named():
    envelope = (await returned({"code": "X1", "message": "gone away"})).envelope
    assert "gone away" in envelope["message"] and "'X1'" in envelope["message"]


async def test_a_fault_that_a_tool_raises_is_the_envelope_it_stands_for():
    envelope = (await returned(ToolFault(1006, "it is taken", {"by": "a"}))).envelope
    assert (envelope["code"], envelope["message"], envelope["data"]) == (
        1006,
        "it is taken",
        {"by": "a"},
    )


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@dataclasses.dataclass
class Thing:
    path: Path
    raw: bytes


async def test_data_that_is_not_json_is_made_json():
    cycle: list[Any] = []
    cycle.extend([cycle, cycle])
    values = [
        Thing(Path("/x"), b"12"), Unshowable(), cycle, float("nan"), 10**5000, 2**70, "\ud800",
        {1: 2, Unshowable: 3, "\udcff": 4}, object(), {"a": {1, 2}},
    ]  # fmt: skip
    for value in values:
        outcome = await returned({"value": value})
        assert outcome.envelope["code"] == 0
        assert len(encode(outcome.envelope)) < 1_000_000
        outcome.text.encode()


class Node(enum.Enum):
    SIZE = 2**70


async def test_each_part_that_json_lacks_is_replaced_and_the_rest_stays():
    cycle: dict[str, Any] = {"name": "a"}
    cycle["self"] = cycle
    value = {
        "cycle": cycle,
        "shared": [cycle["name"], float("inf"), b"123", Node.SIZE],
        "thing": Thing(Path("/x"), b"\xff"),
        "mapping": types.MappingProxyType({(1, 2): "a\ud800"}),
        "endless": itertools.count(),
        10**9: Unshowable(),
    }
    data = (await returned(value)).envelope["data"]
    assert data["cycle"] == {"name": "a", "self": "(cut: nested too deep)"}
    assert data["shared"] == ["a", "inf", "(3 bytes)", 2**70]
    assert data["thing"] == {"path": "/x", "raw": "_w=="}
    assert data["mapping"] == {"(1, 2)": "a\ufffd"}
    assert data["endless"] == "count(0)" and "Unshowable" in data["1000000000"]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text()
                    | st.binary(), lambda inner: st.lists(inner) | st.dictionaries(
                        st.text() | st.integers(), inner)))  # fmt: skip
def test_any_value_gives_an_envelope_that_travels(value: Any):
    outcome = asyncio.run(returned(value))
    assert decode(encode(outcome.envelope)) == outcome.envelope
    assert set(outcome.envelope["meta"]) == META


async def test_an_unknown_tool_names_those_there_are():
    tools = executor(echo, not_given=["bash"])
    unknown = await tools.execute("some_ecko", {})
    assert unknown.envelope["code"] == 1005
    assert "some_echo" in unknown.envelope["message"]
    denied = await tools.execute("bash", {})
    assert denied.envelope["code"] == 1004
    huge = await tools.execute("x" * 100_000, {})
    assert huge.envelope["code"] == 1005 and len(huge.text) < 1000


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{'text': 1}",
        '{"text": NaN}',
        '{"text": "a", "text": "b"}',
        '{"text": "\\ud800"}',
        "[" * 100_000,
        "1" * 5000,
        "\x00",
        {"text": "\ud800"},
        {1: 2},
    ],
)
async def test_arguments_that_are_not_json_are_told_so(text: Any):
    envelope = (await executor(echo).execute("some_echo", text)).envelope
    assert envelope["code"] == 1001
    assert len(envelope["message"]) < 1000


async def test_every_fault_is_named_by_its_field():
    outcome = await executor(echo).execute("some_echo", {"text": 3, "times": "x", "more": 1})
    message = outcome.envelope["message"]
    assert outcome.envelope["code"] == 1002
    assert "$.text: 3" in message and '$.times: "x"' in message and "$.more" in message


async def test_faults_about_huge_arguments_stay_short():
    many = {f"field{n}": "x" * 1000 for n in range(500)}
    for arguments in (many, {"text": ["x" * 1_000_000]}, "[]", "3", {"text": "a", "times": 2**64}):
        outcome = await executor(echo).execute("some_echo", arguments)
        assert outcome.envelope["code"] == 1002
        assert len(outcome.text) < 10_000


async def test_no_text_means_no_arguments():
    @tool("no:arguments")
    async def none() -> str:
        return "called"

    for arguments in ("", "  ", "{}", {}):
        assert (await executor(none).execute("no_arguments", arguments)).text == "called"


async def test_nulls_for_optional_parameters_and_whole_floats_are_understood():
    for arguments in ('{"text": "a", "times": null}', '{"text": "a", "times": 1.0}'):
        outcome = await executor(echo).execute("some_echo", arguments)
        assert outcome.envelope["code"] == 0 and outcome.text == "a"
    required = await executor(echo).execute("some_echo", '{"text": null}')
    assert required.envelope["code"] == 1002


async def test_a_tool_whose_schema_is_unusable_ends_in_an_envelope():
    broken = dataclasses.replace(
        collect_tools([echo])[0], parameters={"$ref": "http://example.org/x"}
    )
    tools = ToolExecutor([broken], ToolContext(cwd=Path("/")))
    assert tools.prepare("some_echo", read_arguments({})).timeout_ms == 120_000
    outcome = await tools.execute("some_echo", {"text": "a"})
    assert outcome.envelope["code"] == 5000 and "leads outside" in outcome.envelope["message"]


async def test_a_slow_tool_ends_at_its_timeout():
    ended = asyncio.Event()

    @tool("slow:tool", timeout_ms=20)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    outcome = await executor(slow).execute("slow_tool", {})
    assert outcome.envelope["code"] == 2002 and "20 ms" in outcome.envelope["message"]
    assert ended.is_set()


async def test_a_tool_that_will_not_be_cancelled_is_left_behind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("outrider.tools.executor.CANCEL_SECONDS", 0.05)
    release = asyncio.Event()

    @tool("stubborn:tool", timeout_ms=20)
    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    outcome = await executor(stubborn).execute("stubborn_tool", {})
    assert outcome.envelope["code"] == 2002
    release.set()


async def test_a_blocking_function_does_not_block_the_others():
    release = threading.Event()

    @tool("blocking:tool")
    def blocking() -> str:
        release.wait(60)
        return threading.current_thread().name

    tools = executor(blocking, echo)
    running = asyncio.create_task(tools.execute("blocking_tool", {}))
    assert (await tools.execute("some_echo", {"text": "a"})).text == "a"
    release.set()
    assert "blocking" in (await running).text


async def test_a_blocked_function_ends_at_its_timeout_for_the_model():
    release = threading.Event()

    @tool("blocking:tool", timeout_ms=20)
    def blocking() -> None:
        release.wait(60)

    try:
        assert (await executor(blocking).execute("blocking_tool", {})).envelope["code"] == 2002
    finally:
        release.set()


class Hostile(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.parametrize("fault", [Hostile, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("in_thread", [True, False])
async def test_no_exception_whatever_ends_the_child(fault: type[BaseException], in_thread: bool):
    if in_thread:

        @tool("some:fault")
        def raising() -> None:
            raise fault
    else:

        @tool("some:fault")
        async def raising() -> None:
            raise fault

    outcome = await executor(raising, echo).execute("some_fault", {})
    assert outcome.envelope["code"] == 5000 and fault.__name__ in outcome.text


async def test_a_value_that_fails_when_it_is_looked_at_is_an_envelope():
    class Mine:
        def __str__(self) -> str:
            raise Hostile

    outcome = await returned({"code": 0, "message": Mine()})
    assert outcome.envelope["code"] == 5000


async def test_a_plain_function_around_an_async_one_is_waited_for():
    @tool("some:wrapped")
    def wrapped() -> Any:
        async def inner() -> int:
            return 7

        return inner()

    outcome = await executor(wrapped).execute("some_wrapped", {})
    assert outcome.envelope["data"] == 7


async def test_what_a_tool_in_a_thread_raises_is_an_envelope_too():
    for fault in (ValueError("bad"), SystemExit(2), StopIteration(), TimeoutError()):

        @tool("raising:tool")
        def raising(fault: Any = fault) -> None:
            raise fault

        code = (await executor(raising).execute("raising_tool", {})).envelope["code"]
        assert code == (2002 if isinstance(fault, TimeoutError) else 5000)


async def test_a_timeout_is_known_before_the_call():
    @tool("own:timeout", timeout_ms=7_000)
    async def own(timeout_ms: int = 7_000) -> int:
        return timeout_ms

    tools = executor(own, echo)

    def timeout_ms(name: str, arguments: Any) -> int:
        return tools.prepare(name, read_arguments(arguments)).timeout_ms

    assert timeout_ms("own_timeout", {"timeoutMs": 50}) == 50
    assert timeout_ms("own_timeout", '{"timeoutMs": "x"}') == 7_000
    assert timeout_ms("own_timeout", "{") == 7_000
    assert timeout_ms("some_echo", {}) == 120_000
    assert timeout_ms("unknown", {}) == 120_000
    assert (await tools.execute("own_timeout", {})).envelope["data"] == 7_000


async def test_a_long_result_is_cut_and_its_whole_stays_readable(tmp_path: Path):
    context = ToolContext(cwd=tmp_path, spill=tmp_path / "spill")
    tools = executor(echo, context=context, result_bytes=1_000)
    for number in (1, 2):
        outcome = await tools.execute("some_echo", {"text": "lineé\n", "times": 5_000})
        assert f"read `outrider-result:{number}` with offset" in outcome.text
        assert "of 35,000 bytes" in outcome.text
        assert len(outcome.text.encode()) < 1_200
    path = context.find_spilled("outrider-result:2")
    assert path is not None and path.read_text() == "lineé\n" * 5_000
    assert path.stat().st_mode & 0o777 == 0o600


async def test_names_of_kept_results_lead_nowhere_else(tmp_path: Path):
    context = ToolContext(cwd=tmp_path, spill=tmp_path)
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "result-7.txt").symlink_to("secret.txt")
    ends = ("../secret", "7", "1", "", "\u0661", "1\n", "7/../1")
    for name in ("secret.txt", *(f"outrider-result:{end}" for end in ends)):
        assert context.find_spilled(name) is None


async def test_a_cut_result_is_honest_where_nothing_can_be_kept():
    outcome = await executor(echo, result_bytes=100).execute(
        "some_echo", {"text": "x", "times": 1000}
    )
    assert "showing 100 of 1,000 bytes" in outcome.text and "outrider-result" not in outcome.text


async def test_both_ends_stay_where_the_tool_asks_for_it():
    numbers = "\n".join(str(n) for n in range(10_000))
    outcome = await returned(numbers, keep="ends")
    assert outcome.text == numbers
    tools = executor_for(numbers)
    text = (await tools.execute("some_thing", {})).text
    assert text.startswith("0\n1\n") and text.endswith("9998\n9999") and "[cut: " in text


def executor_for(value: Any) -> ToolExecutor:
    @tool("some:thing", keep="ends")
    async def thing() -> Any:
        return value

    return executor(thing, result_bytes=1_000)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 20_000_000,
        {"lines": ["x" * 100] * 150_000},
        {f"key{n}": "x" * 50 for n in range(150_000)},
        [["x" * 1000] * 100] * 100,
        {"x" * 5_000_000: 1},
    ],
)
async def test_huge_data_still_fits_into_an_event(value: Any):
    envelope = (await returned(value)).envelope
    assert envelope["code"] == 0
    assert len(encode(envelope)) < 500_000


async def test_what_is_masked_is_masked_everywhere(tmp_path: Path):
    secret = "tops3cret"
    context = ToolContext(cwd=tmp_path, spill=tmp_path / "spill", mask=Masker(secrets=(secret,)))

    @tool("leaky:tool")
    async def leaky(fail: bool) -> Any:
        if fail:
            raise ValueError(f"with {secret}")
        return {secret: [secret, {"deep": f"<{secret}>"}], "bulk": f"{secret} " * 20_000}

    tools = executor(leaky, context=context)
    for fail in (True, False):
        outcome = await tools.execute("leaky_tool", {"fail": fail})
        assert secret not in json.dumps(outcome.envelope) + outcome.text + outcome.summary
    kept = context.find_spilled("outrider-result:1")
    assert kept is not None and secret not in kept.read_text()


async def test_a_secret_in_the_arguments_is_masked_where_a_formatter_repeats_it():
    secret = "tops3cret"
    context = ToolContext(cwd=Path("/"), mask=Masker(secrets=(secret,)))

    def repeat(data: Any, arguments: Any) -> str:
        return f"{data} for {arguments}"

    @tool("some:search", format=Formatter(repeat, repeat))
    async def search(query: str) -> str:
        return "nothing"

    outcome = await executor(search, context=context).execute("some_search", {"query": secret})
    assert "nothing for" in outcome.text and "nothing for" in outcome.summary
    assert secret not in outcome.text + outcome.summary


async def test_a_mask_that_fails_lets_nothing_through():
    broken: Any = object()
    context = ToolContext(cwd=Path("/"), mask=broken)
    outcome = await executor(echo, context=context).execute("some_echo", {"text": "secret"})
    assert outcome.envelope["code"] == 5000
    assert "secret" not in json.dumps(outcome.envelope) + outcome.text


@pytest.mark.parametrize("data", [None, "", [], {}, 3, {"a": None}, Unshowable()])
def test_the_formatter_formats_anything(data: Any):
    formatter = ResultFormatter()
    for code in (0, 1002, 777, None):
        envelope = {"code": code, "message": None, "data": data}
        assert formatter.long("unknown", {}, envelope)
        assert "\n" not in formatter.short("unknown", {"x": "a\nb" * 100}, envelope)
    assert formatter.long("unknown", {}, {})


async def test_a_formatter_that_fails_gives_way_to_the_default():
    def broken(data: Any, arguments: Any) -> str:
        raise KeyError("x")

    outcome = await returned({"a": 1}, format=Formatter(broken, broken))
    assert json.loads(outcome.text) == {"a": 1}
    assert outcome.summary == "some_thing → 3 lines"


async def test_a_tools_own_formatter_has_both_forms():
    def long(data: Any, arguments: Any) -> str:
        return f"{data} in words"

    def short(data: Any, arguments: Any) -> str:
        return f"got {data}"

    outcome = await returned(5, format=Formatter(long, short))
    assert (outcome.text, outcome.summary) == ("5 in words", "got 5")


async def test_the_receipt_counts_what_happened():
    context = ToolContext(cwd=Path("/"))
    tools = executor(echo, context=context)
    await tools.execute("some_echo", {"text": "a"})
    await tools.execute("some_echo", {})
    await tools.execute("nothing", {})
    receipt = tools.receipt.to_dict()
    assert (receipt["toolCalls"], receipt["toolErrors"]) == (3, 2)


def test_the_receipt_is_bounded_and_says_so(tmp_path: Path):
    recorder = EffectsRecorder(tmp_path)
    recorder.file_written(tmp_path / "a", None, "1")
    recorder.file_written(tmp_path / "a", "1", "2")
    recorder.file_read("/elsewhere/b")
    recorder.command("x" * 10_000, None)
    for number in range(MAX_ENTRIES + 5):
        recorder.file_read(tmp_path / f"f{number}")
    total = Receipt()
    total.add("write", recorder.effects(), {"code": 0})
    total.add("bash", EffectsRecorder(tmp_path).effects(), {"code": 2001, "message": "no"})
    receipt = total.to_dict()
    assert (receipt["toolCalls"], receipt["toolErrors"]) == (2, 1)
    assert receipt["filesWritten"] == [{"path": "a", "before": None, "after": "2"}]
    assert receipt["filesRead"][:2] == ["/elsewhere/b", "f0"]
    assert len(receipt["filesRead"]) == MAX_ENTRIES and receipt["omitted"] == 6
    assert receipt["commands"][0]["exitCode"] is None
    assert len(receipt["commands"][0]["command"]) < 3_000
    assert set(Receipt().to_dict()) == {
        "toolCalls", "toolErrors", "filesRead", "filesWritten", "commands",
    }  # fmt: skip
