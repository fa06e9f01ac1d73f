"""Both wires make the same of thoughts, parts, choices and names, and send the same back."""

from typing import Any

import pytest

from wires import (
    HEAD,
    MODEL,
    Case,
    Raw,
    assert_alike,
    bad,
    called,
    chunk,
    counted,
    ok,
    replaying,
    said,
    sse,
)

LS = {"index": 0, "id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
END = chunk({}, "tool_calls")
STOP = chunk({}, "stop")


def turn(*deltas: dict[str, Any]) -> Raw:
    """Return a turn of deltas that ends with a call, so that all of it is sent back."""
    return sse(*map(chunk, deltas), called(LS), END, counted())


def thought(*pieces: str, name: str = "reasoning_content") -> list[dict[str, Any]]:
    return [{name: one} for one in pieces]


def text(*pieces: str) -> list[dict[str, Any]]:
    return [{"content": one} for one in pieces]


THOUGHTS: dict[str, Raw] = {
    "reasoning_content": turn(*thought("Let me ", "think."), *text("So.")),
    "reasoning": turn(*thought("Let me ", "think.", name="reasoning"), *text("So.")),
    "both, the same": turn({"reasoning": "Hm.", "reasoning_content": "Hm."}, *text("So.")),
    "both, one after the other": turn(
        *thought("A."), *thought("B.", name="reasoning"), *text("So.")
    ),
    "thinking, which nobody reads": turn(*thought("A.", name="thinking"), *text("So.")),
    "reasoning_details": turn(
        {
            "reasoning": "A.",
            "reasoning_details": [{"type": "reasoning.text", "text": "A.", "index": 0}],
        },
        *text("So."),
    ),
    "with null content": turn({"reasoning_content": "A.", "content": None}, *text("So.")),
    "with empty content": turn({"reasoning_content": "A.", "content": ""}, *text("So.")),
    "with content": turn({"reasoning_content": "A.", "content": "So."}),
    "null": turn({"reasoning_content": None, "content": "So."}),
    "empty": turn({"reasoning_content": "", "content": "So."}),
    "a list": turn({"reasoning_content": ["A."], "content": "So."}),
    "an object": turn({"reasoning": {"text": "A."}, "content": "So."}),
    "a number": turn({"reasoning": 7, "content": "So."}),
    "after the text": turn(*text("So."), *thought("A.")),
    "between texts": turn(*text("So"), *thought("A."), *text(" on.")),
    "twice": turn(*thought("A."), *text("So."), *thought("B."), *text("On.")),
    "after a call": sse(*map(chunk, thought("A.")), called(LS), *map(chunk, thought("B.")), END),
    "between two calls": sse(
        *map(chunk, thought("A.")),
        called(LS),
        *map(chunk, thought("B.")),
        called({**LS, "index": 1, "id": "c2"}),
        END,
    ),
    "without text": turn(*thought("A.")),
    "tags": turn(*text("<think>A.</think>So.")),
    "tags on lines": turn(*text("<think>\nA.\n</think>\n\nSo.")),
    "tags in chunks of their own": turn(*text("<think>", "A.", "</think>", "So.")),
    "tags in pieces": turn(*text("<thi", "nk>A.</th", "ink>So.")),
    "tags byte by byte": turn(*text(*"<think>A.</think>So.")),
    "tags opened in a chunk with more": turn(*text("<think>A", ".", "</think>", "So.")),
    "tags closed in a chunk with more": turn(*text("<think>", "A.</think>So.")),
    "tags never closed": turn(*text("<think>", "A.")),
    "tags never opened": turn(*text("A.", "</think>", "So.")),
    "tags later": turn(*text("So.", "<think>", "A.", "</think>", "On.")),
    "tags twice": turn(*text("<think>", "A.", "</think>", "<think>", "B.", "</think>", "So.")),
    "tags empty": turn(*text("<think>", "</think>", "So.")),
    "tags after blanks": turn(*text("\n", "<think>", "A.", "</think>", "So.")),
    "tags in capitals": turn(*text("<THINK>", "A.", "</THINK>", "So.")),
    "tags and a field": turn(*thought("A."), *text("<think>", "B.", "</think>", "So.")),
    "tags around a call": sse(
        said("<think>"), said("A."), called(LS), said("</think>"), said("So."), END
    ),
}


def choice(index: object, delta: object, finish: object = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def choices(*given: object, **more: object) -> dict[str, Any]:
    return {**HEAD, "choices": list(given), **more}


def part(text: object, kind: str = "text") -> dict[str, object]:
    return {"type": kind, "text": text}


def content(value: object) -> Case:
    return Case((sse(chunk({"content": value}), said("Done."), STOP),))


OTHER = choice(1, {"content": "Other."})
CASES: dict[str, Case] = {
    **{f"thought: {name}": ok(raw) for name, raw in THOUGHTS.items()},
    "thought: the whole answer in tags": bad(
        sse(said("<think>"), said("A."), said("</think>"), STOP), fails="empty answer"
    ),
    "thought: the whole answer in a field": bad(
        sse(chunk({"reasoning": "A."}), STOP), fails="empty answer"
    ),
    "thought: cut in the middle": bad(sse(chunk({"reasoning": "A."})), fails="cut off"),
    "thought: before an answer": ok(sse(chunk({"reasoning": "A."}), said("Done."), STOP)),
    "thought: with a limit": bad(
        sse(chunk({"reasoning": "A."}), chunk({}, "length")), fails="token limit"
    ),
    "content: parts": ok(sse(chunk({"content": [part("Do"), part("ne.")]}), STOP)),
    "content: parts in two chunks": ok(
        sse(chunk({"content": [part("Do")]}), chunk({"content": [part("ne.")]}), STOP)
    ),
    "content: parts and a text": ok(sse(chunk({"content": [part("Do")]}), said("ne."), STOP)),
    "content: a part of another type": content([part("x", "image_url"), part("y")]),
    "content: a part that thinks": content(
        [{"type": "thinking", "thinking": [part("Hm.")]}, part("So ")]
    ),
    "content: a part that refuses": content([{"type": "refusal", "refusal": "No."}]),
    "content: a part that is a text": content(["a", "b"]),
    "content: a part that is null": content([None]),
    "content: a part whose text is null": content([part(None)]),
    "content: a part whose text is a number": content([part(7)]),
    "content: a part without a type": content([{"text": "a"}]),
    "content: no parts": content([]),
    "content: one part as an object": content(part("a")),
    "content: null": content(None),
    "content: a number": content(7),
    "content: true": content(True),
    "content: an object": content({"a": 1}),
    "content: two texts after a call": ok(
        sse(said("One."), called(LS), said("Two."), chunk({"reasoning": "A."}), said("Three."), END)
    ),
    "content: blanks between calls": ok(
        sse(said("\n\n"), called(LS), said("\n"), called({**LS, "index": 1, "id": "c2"}), END)
    ),
    "content: blanks alone before a call": ok(sse(said(" "), called(LS), END)),
    "content: leading blanks": ok(sse(said("\n\n "), said("Done."), STOP), says="\n\n Done."),
    "content: nothing before a call": ok(sse(chunk({"content": ""}), called(LS), END)),
    "delta: null": Case((sse(chunk(None), said("Done."), STOP),)),
    "delta: empty": ok(sse(chunk({}), said("Done."), STOP)),
    "delta: a list": Case((sse(chunk([]), said("Done."), STOP),)),
    "delta: a text": Case((sse(chunk("x"), said("Done."), STOP),)),
    "delta: another role": ok(sse(chunk({"role": "tool", "content": "Do"}), said("ne."), STOP)),
    "delta: a role of nothing": ok(sse(chunk({"role": None, "content": "Done."}), STOP)),
    "delta: fields nobody knows": ok(
        sse(chunk({"content": "Done.", "audio": {"id": "x"}, "annotations": [], "x": 1}), STOP)
    ),
    "delta: a citation": Case(
        (
            sse(
                said("Done."),
                chunk(
                    {
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url_citation": {
                                    "url": "http://x",
                                    "title": "x",
                                    "start_index": 0,
                                    "end_index": 4,
                                },
                            }
                        ]
                    }
                ),
                STOP,
            ),
        )
    ),
    "delta: a message instead": Case(
        (
            sse(
                {**HEAD, "choices": [{"index": 0, "message": {"content": "x"}}]},
                said("Done."),
                STOP,
            ),
        )
    ),
    "choices: empty first, as azure": ok(
        sse(
            {**HEAD, "model": "", "id": "", "choices": [], "prompt_filter_results": [{"x": 1}]},
            said("Done."),
            STOP,
        )
    ),
    "choices: null": ok(sse({**HEAD, "choices": None}, said("Done."), STOP)),
    "choices: missing": ok(sse(HEAD, said("Done."), STOP)),
    "choices: an object": Case((sse({**HEAD, "choices": {}}, said("Done."), STOP),)),
    "choices: a text": Case((sse({**HEAD, "choices": "x"}, said("Done."), STOP),)),
    "choices: a number": Case((sse({**HEAD, "choices": 7}, said("Done."), STOP),)),
    "choices: null in them": Case((sse(choices(None), said("Done."), STOP),)),
    "choices: a text in them": Case((sse(choices("x"), said("Done."), STOP),)),
    "choices: another beside ours": ok(sse(choices(choice(0, {"content": "Done."}), OTHER), STOP)),
    "choices: another before ours": ok(sse(choices(OTHER, choice(0, {"content": "Done."})), STOP)),
    "choices: another in chunks of its own": ok(
        sse(choices(OTHER), said("Done."), choices(choice(1, {}, "length")), STOP)
    ),
    "choices: only another's finish": bad(
        sse(said("Done."), choices(choice(1, {}, "stop"))), fails="cut off"
    ),
    "choices: another's finish first": bad(
        sse(choices(choice(1, {}, "stop")), said("Do")), fails="cut off"
    ),
    "choices: another's call": ok(
        sse(choices(choice(1, {"tool_calls": [LS]})), said("Done."), STOP)
    ),
    "choices: another's refusal": ok(
        sse(choices(choice(1, {"refusal": "No."})), said("Done."), STOP)
    ),
    "choices: without an index": ok(
        sse(
            choices({"delta": {"content": "Done."}, "finish_reason": None}),
            choices({"delta": {}, "finish_reason": "stop"}),
        )
    ),
    "choices: an index of null": ok(sse(choices(choice(None, {"content": "Done."}, "stop")))),
    "choices: an index as a text": Case((sse(choices(choice("0", {"content": "Done."}, "stop"))),)),
    "choices: an index of one alone": Case(
        (sse(choices(choice(1, {"content": "Done."}, "stop"))),)
    ),
    "choices: logprobs": ok(
        sse(
            choices(
                {
                    **choice(0, {"content": "Done."}),
                    "logprobs": {
                        "content": [
                            {"token": "Done.", "logprob": -0.1, "bytes": [68], "top_logprobs": []}
                        ],
                        "refusal": None,
                    },
                }
            ),
            STOP,
        )
    ),
    "choices: logprobs as a list": Case(
        (sse(choices({**choice(0, {"content": "Done."}), "logprobs": [1, 2]}), STOP),)
    ),
    "choices: logprobs as a text": Case(
        (sse(choices({**choice(0, {"content": "Done."}), "logprobs": "x"}), STOP),)
    ),
    "choices: a filter's results": ok(
        sse(
            choices({**choice(0, {"content": "Done."}), "content_filter_results": {"hate": {}}}),
            STOP,
        )
    ),
    "head: service_tier and fingerprint": ok(
        sse(
            choices(
                choice(0, {"content": "Done."}), service_tier="default", system_fingerprint="f"
            ),
            STOP,
        )
    ),
    "head: moderation": Case(
        (sse(choices(choice(0, {"content": "Done."}), moderation={"results": []}), STOP),)
    ),
    "head: provider and obfuscation": ok(
        sse(choices(choice(0, {"content": "Done."}), provider="x", obfuscation="yz"), STOP)
    ),
    **{
        f"head: model {name!r}": Case(
            (sse(*({**one, "model": name} for one in (said("Done."), STOP)), counted()),)
        )
        for name in (
            None,
            "",
            "gpt-4o-2024-08-06",
            "nobody-knows",
            "a" * 500,
            "a\nb",
            7,
            ["x"],
            {},
            True,
        )
    },
    "head: model that changes": ok(
        sse({**said("Do"), "model": "one"}, {**said("ne."), "model": "two"}, STOP)
    ),
    "head: model that is named late": ok(
        sse({**said("Done."), "model": ""}, {**STOP, "model": "two"})
    ),
    "head: nothing at all": ok(sse({"choices": [choice(0, {"content": "Done."}, "stop")]})),
    **{
        f"head: created {value!r}": Case((sse({**said("Done."), "created": value}, STOP),))
        for value in (None, 0, -1, 1.5, 10**12, 10**30, "now", [], {})
    },
    **{
        f"head: id {value!r}": Case((sse({**said("Done."), "id": value}, STOP),))
        for value in (None, "", 7, [], {})
    },
}


@pytest.mark.parametrize("name", CASES)
async def test_parts_mean_the_same_on_both_wires(name: str) -> None:
    await assert_alike(name, CASES[name])


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_a_thought_is_sent_back_in_the_field_that_it_came_in(name: str) -> None:
    async with replaying() as replay:
        for told in await replay.both(ok(THOUGHTS[name])):
            sent = told.requests[1][3]["messages"][2]
            assert sent[name] == "Let me think." and sent["content"] == "So."
            assert {"reasoning", "reasoning_content"} & sent.keys() == {name}


SCHEMA = {
    "type": "object",
    "properties": {"where": {"$ref": "#/$defs/place"}, "sure": {"type": "boolean"}},
    "required": ["where"],
    "$defs": {"place": {"type": "string", "minLength": 1}},
}
REPORT = '{"where": "thing.txt"}'
REPORTED = {**LS, "function": {"name": "report_back", "arguments": REPORT}}
REJECTED = Raw(
    b'{"error": {"message": "no tools here"}}', 400, "application/json", framing="length"
)
REPORTS: dict[str, Case] = {
    "report: as a call": Case((sse(called(REPORTED), END, counted()),), schema=SCHEMA),
    "report: that doesn't fit": Case(
        (
            sse(called({**LS, "function": {"name": "report_back", "arguments": "{}"}}), END),
            sse(called(REPORTED), END),
        ),
        schema=SCHEMA,
    ),
    "report: beside another call": Case(
        (sse(called(LS), called({**REPORTED, "index": 1, "id": "c2"}), END),), schema=SCHEMA
    ),
    "report: after a reminder": Case(
        (sse(said("It is there."), STOP), sse(called(REPORTED), END)), schema=SCHEMA
    ),
    "report: as json, where tools are refused": Case(
        (REJECTED, sse(said(REPORT), STOP, counted())), schema=SCHEMA
    ),
    "report: as json in pieces": Case((REJECTED, sse(*map(said, REPORT), STOP)), schema=SCHEMA),
    "report: as json that doesn't fit": Case(
        (REJECTED, sse(said("{}"), STOP), sse(said(REPORT), STOP)), schema=SCHEMA
    ),
    "report: as json, where that is refused too": Case((REJECTED, REJECTED), schema=SCHEMA),
    "report: as json, at last": Case(
        (sse(said("Hm."), STOP), sse(said("Hm."), STOP), sse(said(REPORT), STOP)), schema=SCHEMA
    ),
    "report: where the server fails on tools": Case(
        (Raw(b"{}", 500, "application/json"),) * 2 + (sse(said(REPORT), STOP),), schema=SCHEMA
    ),
}


@pytest.mark.parametrize("name", REPORTS)
async def test_a_report_is_asked_for_in_the_same_way_on_both_wires(name: str) -> None:
    await assert_alike(name, REPORTS[name])


async def test_json_is_asked_for_by_schema_and_never_strictly() -> None:
    async with replaying() as replay:
        for told in await replay.both(REPORTS["report: as json, where tools are refused"]):
            form = told.requests[1][3]["response_format"]
            assert form["type"] == "json_schema" and not form["json_schema"].get("strict")
            assert told.finish[0] == "completed" and told.finish[3] == {"where": "thing.txt"}
            assert "tools" not in told.requests[1][3]
            assert told.requests[1][3]["model"] == MODEL
