"""Both wires make the same of every answer: text, calls, thoughts, usage and finish reasons."""

from typing import Any

import pytest

from outrider.models.endings import WIRES
from wires import (
    HEAD,
    USAGE,
    Case,
    assert_alike,
    bad,
    called,
    chunk,
    counted,
    ok,
    said,
    sse,
)

END = chunk({}, "tool_calls")
LIST = '{"path": ".", "depth": 1}'


def call(index: object = 0, **more: Any) -> dict[str, Any]:
    """Return a piece of a call: `id`, and `name` and `arguments` of its function."""
    given = {"index": index, "id": more.pop("id", None), "type": "function"}
    function = {name: more.pop(name) for name in ("name", "arguments") if name in more}
    every = {**given, "function": function, **more}
    return {name: value for name, value in every.items() if value is not None}


def calls(*chunks: dict[str, Any], end: dict[str, Any] = END) -> Case:
    """Return a case of a turn that calls, and an answer after it."""
    return Case((sse(*chunks, end, counted()),))


LS = call(id="c1", name="ls", arguments="{}")
CALLS: dict[str, Case] = {
    "call: at once": ok(sse(called(LS), END)),
    "call: with the finish": ok(sse(called(LS, finish="tool_calls"))),
    "call: in pieces": ok(
        sse(
            called(call(id="c1", name="ls", arguments="")),
            *(called(call(arguments=one)) for one in LIST),
            END,
        )
    ),
    "call: with text before": ok(sse(said("Let me see."), called(LS), END)),
    "call: with text after": ok(sse(called(LS), said("There."), END)),
    "call: with text around": ok(sse(said("One."), called(LS), said("Two."), END)),
    "call: with text and call in one": ok(sse(chunk({"content": "Hm.", "tool_calls": [LS]}), END)),
    "call: text between its pieces": calls(
        called(call(id="c1", name="ls", arguments='{"path"')),
        said("Hm."),
        called(call(arguments=': "."}')),
    ),
    "call: two at once": calls(called(LS, call(1, id="c2", name="ls", arguments=LIST))),
    "call: two after each other": calls(
        called(LS), called(call(1, id="c2", name="ls", arguments=LIST))
    ),
    "call: two in turns": calls(
        called(call(0, id="c1", name="ls", arguments='{"depth"')),
        called(call(1, id="c2", name="ls", arguments='{"limit"')),
        called(call(0, arguments=": 1}"), call(1, arguments=": 2}")),
    ),
    "call: two, the second first": calls(
        called(call(1, id="c2", name="ls", arguments="{}")), called(LS)
    ),
    "call: five": calls(
        *(called(call(i, id=f"c{i}", name="ls", arguments="{}")) for i in range(5))
    ),
    "call: index from one": calls(called(call(1, id="c1", name="ls", arguments="{}"))),
    "call: index far away": calls(called(call(10**9, id="c1", name="ls", arguments="{}"))),
    "call: index negative": calls(called(call(-1, id="c1", name="ls", arguments="{}"))),
    "call: index a text": calls(
        called(call("0", id="c1", name="ls", arguments="{")), called(call("0", arguments="}"))
    ),
    "call: index a fraction": calls(
        called(call(0.0, id="c1", name="ls", arguments="{")), called(call(0, arguments="}"))
    ),
    "call: index a list": calls(called(call([0], id="c1", name="ls", arguments="{}"))),
    "call: index null": calls(called({**LS, "index": None})),
    "call: no index": calls(called(call(None, id="c1", name="ls", arguments="{}"))),
    "call: no index, in pieces": calls(
        called(call(None, id="c1", name="ls", arguments="{")), called(call(None, arguments="}"))
    ),
    "call: no index, id in each piece": calls(
        called(call(None, id="c1", name="ls", arguments="{")),
        called(call(None, id="c1", arguments="}")),
    ),
    "call: no index, two at once": calls(
        called(*(call(None, id=one, name="ls", arguments="{}") for one in ("c1", "c2")))
    ),
    "call: no index, two after each other": calls(
        *(called(call(None, id=one, name="ls", arguments="{}")) for one in ("c1", "c2"))
    ),
    "call: no index and no id, two at once": calls(
        called(*[call(None, name="ls", arguments="{}")] * 2)
    ),
    "call: no index and no id, two after each other": calls(
        *[called(call(None, name="ls", arguments="{}"))] * 2
    ),
    "call: the same index, two ids": calls(
        called(call(0, id="c1", name="ls", arguments="{}")),
        called(call(0, id="c2", name="ls", arguments="{}")),
    ),
    "call: the same id twice": calls(
        called(call(0, id="c1", name="ls", arguments="{}")),
        called(call(1, id="c1", name="ls", arguments="{}")),
    ),
    "call: no id": calls(called(call(name="ls", arguments="{}"))),
    "call: an id that is empty": calls(called(call(id="", name="ls", arguments="{}"))),
    "call: an id that is a number": calls(called(call(id=7, name="ls", arguments="{}"))),
    "call: an id that comes later": calls(
        called(call(name="ls", arguments="{")), called(call(id="c1", arguments="}"))
    ),
    "call: an id in each piece": calls(
        called(call(id="c1", name="ls", arguments="{")), called(call(id="c1", arguments="}"))
    ),
    "call: an id that is empty later": calls(
        called(call(id="c1", name="ls", arguments="{")), called(call(id="", arguments="}"))
    ),
    "call: another id later": calls(
        called(call(id="c1", name="ls", arguments="{")), called(call(id="c2", arguments="}"))
    ),
    "call: ids without id, two": calls(
        called(call(0, name="ls", arguments="{}"), call(1, name="ls", arguments="{}"))
    ),
    "call: name in each piece": calls(
        called(call(id="c1", name="ls", arguments="{")), called(call(name="ls", arguments="}"))
    ),
    "call: name in pieces": calls(
        called(call(id="c1", name="l", arguments="")), called(call(name="s", arguments="{}"))
    ),
    "call: name null later": calls(
        called(call(id="c1", name="ls", arguments="{")),
        called({"index": 0, "function": {"name": None, "arguments": "}"}}),
    ),
    "call: name empty later": calls(
        called(call(id="c1", name="ls", arguments="{")), called(call(name="", arguments="}"))
    ),
    "call: name that comes later": calls(
        called(call(id="c1", arguments="")), called(call(name="ls", arguments="{}"))
    ),
    "call: name after its arguments": calls(
        called(call(id="c1", arguments="{}")), called(call(name="ls"))
    ),
    "call: no name": calls(called(call(id="c1", arguments="{}"))),
    "call: a name that is empty": calls(called(call(id="c1", name="", arguments="{}"))),
    "call: a name nobody knows": calls(called(call(id="c1", name="nope", arguments="{}"))),
    "call: a name that is a number": calls(called(call(id="c1", name=5, arguments="{}"))),
    "call: no arguments": calls(called(call(id="c1", name="ls"))),
    "call: arguments null": calls(
        called({"index": 0, "id": "c1", "function": {"name": "ls", "arguments": None}})
    ),
    "call: arguments empty": calls(called(call(id="c1", name="ls", arguments=""))),
    "call: arguments of spaces": calls(called(call(id="c1", name="ls", arguments=" \n"))),
    "call: arguments as an object": calls(called(call(id="c1", name="ls", arguments={"depth": 1}))),
    "call: arguments as an empty object": calls(called(call(id="c1", name="ls", arguments={}))),
    "call: arguments as a list": calls(called(call(id="c1", name="ls", arguments=[]))),
    "call: arguments as a number": calls(called(call(id="c1", name="ls", arguments=7))),
    "call: an object after a text": calls(
        called(call(id="c1", name="ls", arguments="")), called(call(arguments={"depth": 1}))
    ),
    "call: a text after an object": calls(
        called(call(id="c1", name="ls", arguments={"depth": 1})), called(call(arguments=""))
    ),
    "call: two objects": calls(
        called(call(id="c1", name="ls", arguments={"depth": 1})),
        called(call(arguments={"limit": 1})),
    ),
    "call: arguments that are no json": calls(called(call(id="c1", name="ls", arguments="{oops"))),
    "call: arguments with a letter": calls(
        called(call(id="c1", name="ls", arguments='{"path": "ż🐢"}'))
    ),
    "call: function null": calls(called({"index": 0, "id": "c1", "function": None})),
    "call: no function": calls(called({"index": 0, "id": "c1"})),
    "call: function null later": calls(called(LS), called({"index": 0, "function": None})),
    "call: another type": calls(
        called({"index": 0, "id": "c1", "type": "custom", "custom": {"name": "ls", "input": ""}})
    ),
    "call: no type": calls(called({"index": 0, "id": "c1", "function": LS["function"]})),
    "call: null among the calls": calls(chunk({"tool_calls": [None, LS]})),
    "call: calls null": ok(sse(chunk({"content": "Done.", "tool_calls": None}, "stop"))),
    "call: calls empty": ok(sse(chunk({"content": "Done.", "tool_calls": []}, "stop"))),
    "call: calls an object": calls(chunk({"tool_calls": LS})),
    "call: calls a text": calls(chunk({"tool_calls": "ls"})),
    "call: announced and never made": bad(sse(said("Hm."), END), fails="sent none"),
    "call: finished with stop": calls(called(LS), end=chunk({}, "stop")),
    "call: finished with nothing": bad(sse(called(LS)), fails="cut off"),
    "call: cut at the limit": calls(
        called(call(id="c1", name="ls", arguments='{"pa')), end=chunk({}, "length")
    ),
    "call: the old kind": bad(
        sse(chunk({"function_call": {"name": "ls", "arguments": "{}"}}, "function_call")),
        fails="sent none",
    ),
    "call: the old reason": calls(called(LS), end=chunk({}, "function_call")),
    "call: with a signature": calls(
        called({**LS, "extra_content": {"google": {"thought_signature": "sig"}}})
    ),
}


def use(*usage: object, text: str = "Done.") -> Case:
    """Return a case in which each given usage comes in a chunk of its own, before the last."""
    return ok(sse(said(text), chunk({}, "stop"), *map(counted, usage)))


def details(**more: object) -> dict[str, object]:
    return {**USAGE, "prompt_tokens_details": more}


ODD = (
    None, "lots", 7, 0.5, True, [], [1], {}, {"prompt_tokens": None}, {"prompt_tokens": 0},
    {"prompt_tokens": 10}, {"completion_tokens": 5}, {"total_tokens": 15},
    {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    {"prompt_tokens": 10.5, "completion_tokens": 5.5, "total_tokens": 16},
    {"prompt_tokens": 10.0, "completion_tokens": 5.0, "total_tokens": 15.0},
    {"prompt_tokens": -10, "completion_tokens": -5},
    {"prompt_tokens": "10", "completion_tokens": "5"},
    {"prompt_tokens": 10**30, "completion_tokens": 10**12},
    {"prompt_tokens": {"a": [1]}, "completion_tokens": True},
    {"prompt_tokens": 10, "completion_tokens": None}, {"input_tokens": 10, "output_tokens": 5},
    {**USAGE, "completion_tokens_details": "none"}, {**USAGE, "prompt_tokens_details": None},
    {**USAGE, "prompt_tokens_details": []}, {**USAGE, "prompt_tokens_details": "none"},
    details(cached_tokens=8), details(cached_tokens=0), details(cached_tokens=None),
    details(cached_tokens=0.5), details(cached_tokens=99), details(cached_tokens="8"),
    details(cached_tokens=-1), details(audio_tokens=3, cached_tokens=2), details(text_tokens=20),
    details(cached_tokens=8, cache_write_tokens=4), details(cache_creation_tokens=4),
    {**USAGE, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 12},
    {**USAGE, "cached_tokens": 8}, {**USAGE, "num_cached_tokens": 8},
    {**USAGE, "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0}},
    {**USAGE, "completion_tokens_details": {"reasoning_tokens": "3"}},
    {**USAGE, "completion_tokens_details": {"accepted_prediction_tokens": 2}},
    {**USAGE, "total_tokens": 3}, {**USAGE, "cost": 0.1}, {**USAGE, "queue_time": 0.2, "x": {}},
    {**USAGE, "cost_details": {"upstream": 0.1}, "is_byok": False},
)  # fmt: skip
LATER = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
COUNTS: dict[str, Case] = {
    **{f"usage {usage}": use(usage) for usage in ODD},
    **{f"usage {usage} after a good one": use(USAGE, usage) for usage in ODD[:14]},
    "usage: not at all": use(),
    "usage: twice the same": use(USAGE, USAGE),
    "usage: cumulative": use(USAGE, LATER),
    "usage: falling": use(LATER, USAGE),
    "usage: with every chunk": ok(
        sse(
            *(
                {**said(one), "usage": {**USAGE, "completion_tokens": i}}
                for i, one in enumerate("Done.")
            ),
            {**chunk({}, "stop"), "usage": USAGE},
        )
    ),
    "usage: null with every chunk": ok(
        sse(*({**said(one), "usage": None} for one in "Done."), chunk({}, "stop"), counted())
    ),
    "usage: with the finish": ok(sse(said("Done."), {**chunk({}, "stop"), "usage": USAGE})),
    "usage: before the finish": ok(sse({**said("Done."), "usage": USAGE}, chunk({}, "stop"))),
    "usage: first": ok(sse(counted(), said("Done."), chunk({}, "stop"))),
    "usage: in the choice": ok(
        sse(
            said("Done."),
            {
                **HEAD,
                "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}],
            },
        )
    ),
    "usage: in the choice and beside it": ok(
        sse(
            said("Done."),
            {
                **HEAD,
                "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": LATER}],
            },
            counted(),
        )
    ),
    "usage: as groq has it": ok(
        sse(said("Done."), {**chunk({}, "stop"), "x_groq": {"id": "r", "usage": USAGE}})
    ),
    "usage: choices null beside it": ok(
        sse(said("Done.", "stop"), {**HEAD, "choices": None, "usage": USAGE})
    ),
    "usage: no choices beside it": ok(sse(said("Done.", "stop"), {**HEAD, "usage": USAGE})),
    "usage: timings of llama.cpp": ok(
        sse(
            said("Done."),
            {**chunk({}, "stop"), "timings": {"prompt_n": 12, "predicted_n": 3, "cache_n": 8}},
        )
    ),
    "usage: of a stream that was cut": bad(sse(said("Do"), counted()), fails="cut off"),
    "usage: of a call": ok(sse(called(LS), END, counted(details(cached_tokens=5)))),
    "usage: too much for the window": ok(
        sse(called(LS), END, counted({"prompt_tokens": 127_000, "completion_tokens": 900}))
    ),
}
REASONS = sorted({word for words in WIRES.values() for one in words for word in one.split()})
STRANGE = (
    "",
    " ",
    "stop ",
    "STOPPED",
    "nobody_knows",
    0,
    7,
    -1,
    0.5,
    True,
    False,
    {"a": 1},
    ["stop"],
)
ENDS: dict[str, Case] = {
    **{f"finish {one!r}": Case((sse(said("Done."), chunk({}, one)),)) for one in REASONS},
    **{f"finish {one!r}": Case((sse(said("Done."), chunk({}, one)),)) for one in STRANGE},
    **{f"finish {one!r} of a call": calls(called(LS), end=chunk({}, one)) for one in REASONS},
    "finish with the text": ok(sse(said("Done.", "stop"))),
    "finish before the last text": ok(sse(said("Do"), said("ne", "stop"), said("."))),
    "finish twice": ok(sse(said("Done."), chunk({}, "stop"), chunk({}, "stop"))),
    "finish: null after it": ok(sse(said("Done."), chunk({}, "stop"), chunk({}))),
    "finish: length, then stop": bad(
        sse(said("Do"), chunk({}, "length"), chunk({}, "stop")), fails="token limit"
    ),
    "finish: stop, then length": bad(
        sse(said("Do"), chunk({}, "stop"), chunk({}, "length")), fails="token limit"
    ),
    "finish: filter, then stop": bad(
        sse(said("Do"), chunk({}, "content_filter"), chunk({}, "stop")), fails="refused"
    ),
    "finish: filter, then length": bad(
        sse(said("Do"), chunk({}, "content_filter"), chunk({}, "length")), fails="refused"
    ),
    "finish: error, then stop": bad(
        sse(said("Do"), chunk({}, "error"), chunk({}, "stop")), fails="'error'"
    ),
    "finish: nobody knows, then stop": bad(
        sse(said("Do"), chunk({}, "oops"), chunk({}, "stop")), fails="'oops'"
    ),
    "finish: calls, then stop": ok(sse(called(LS), END, chunk({}, "stop"))),
    "finish: stop, then calls": ok(sse(called(LS), chunk({}, "stop"), END)),
    "finish: length, then calls": Case((sse(called(LS), chunk({}, "length"), END),)),
    "finish: empty": bad(sse(chunk({"content": ""}, "stop")), fails="empty answer"),
    "finish: in a chunk whose delta is null": Case((sse(said("Done."), chunk(None, "stop")),)),
    "finish: in a chunk without a delta": Case(
        (sse(said("Done."), {**HEAD, "choices": [{"index": 0, "finish_reason": "stop"}]}),)
    ),
    "finish: native reason too": Case(
        (
            sse(
                said("Done."),
                {
                    **HEAD,
                    "choices": [
                        {
                            "index": 0,
                            "delta": {},
                            "finish_reason": "stop",
                            "native_finish_reason": "MAX_TOKENS",
                        }
                    ],
                },
            ),
        )
    ),
    "refusal": bad(sse(chunk({"refusal": "I won't."}), chunk({}, "stop")), fails="refused"),
    "refusal in pieces": bad(
        sse(*(chunk({"refusal": one}) for one in ("I ", "won't.")), chunk({}, "stop")),
        fails="refused",
    ),
    "refusal after text": bad(
        sse(said("Well, "), chunk({"refusal": "no."}), chunk({}, "stop")), fails="refused"
    ),
    "refusal with the finish": bad(sse(chunk({"refusal": "No."}, "stop")), fails="refused"),
    "refusal without a finish": bad(sse(chunk({"refusal": "No."})), fails=""),
    "refusal beside text": bad(
        sse(chunk({"content": "Hm.", "refusal": "No."}), chunk({}, "stop")), fails="refused"
    ),
    "refusal beside a call": bad(
        sse(chunk({"tool_calls": [LS], "refusal": "No."}), END), fails="refused"
    ),
    "refusal that is empty": ok(sse(chunk({"content": "Done.", "refusal": ""}, "stop"))),
    "refusal that is null": ok(sse(chunk({"content": "Done.", "refusal": None}, "stop"))),
    "refusal that is a list": Case((sse(chunk({"refusal": ["No."]}), chunk({}, "stop")),)),
}
CASES = {**CALLS, **COUNTS, **ENDS}


@pytest.mark.parametrize("name", CASES)
async def test_an_answer_means_the_same_on_both_wires(name: str) -> None:
    await assert_alike(name, CASES[name])
