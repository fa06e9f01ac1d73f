"""Streams that break: cut at each byte, with each value replaced, with bytes changed at random."""

import asyncio
import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from wire_differences import has_tripped, reason_for
from wires import (
    CRASHED,
    DONE,
    FINE,
    USAGE,
    Case,
    Raw,
    Replay,
    Told,
    called,
    chunk,
    counted,
    differences,
    event,
    plain,
    replaying,
    said,
    shown,
)

SHORT = b"".join(
    event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    for delta, finish in (({"content": "Żó"}, None), ({"content": "ł."}, None), ({}, "stop"))
)
WAYS: dict[str, Raw] = {
    "of a chunked response": Raw(SHORT + DONE),
    "of a response of known length": Raw(SHORT + DONE, framing="length"),
    "of a response that ends with its connection": Raw(SHORT + DONE, framing="close"),
}


def where(body: bytes, place: int) -> str:
    return "inside a letter" if body[place] & 0xC0 == 0x80 else "at"


def cut_at(raw: Raw, place: int) -> Case:
    return Case((replace(raw, cut=place),), attempts=1)


async def compare(replay: Replay, name: str, case: Case) -> tuple[list[str], Told, Told]:
    """Return the differences that nobody wants, and what both wires told."""
    sdk, lean = await replay.both(case)
    is_wanted = reason_for(name) or has_tripped(sdk.finish[1])
    found = {} if is_wanted else differences(plain(sdk), plain(lean))
    assert CRASHED not in str(lean.finish[1])
    return [shown(name, found)] if found else [], sdk, lean


@pytest.mark.parametrize("way", WAYS)
async def test_a_cut_at_each_byte_means_the_same_on_both_wires(way: str) -> None:
    raw, faults = WAYS[way], []
    whole = b"".join(raw.pieces())
    finished = whole.index(b'"stop"')
    async with replaying() as replay:
        for place in range(len(whole)):
            name = f"ended {where(whole, place)} {place}"
            found, *both = await compare(replay, name, cut_at(raw, place))
            faults += found
            for told in both:
                assert told.finish[0] == "failed" or place > finished
    assert not faults, "\n".join(faults)


async def test_an_answer_without_its_last_events_is_cut_however_it_ends() -> None:
    faults = []
    async with replaying() as replay:
        for place in range(len(SHORT)):
            case = Case((Raw(SHORT[:place]),), attempts=1)
            name = f"ended {where(SHORT, place)} {place}"
            found, *both = await compare(replay, name, case)
            faults += found
            for told in both:
                assert told.finish[0] == "failed" or place > SHORT.index(b'"stop"')
    assert not faults, "\n".join(faults)


CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{"}}
REST = {"index": 0, "function": {"arguments": "}"}}
GOOD: dict[str, list[Any]] = {
    "text": [
        chunk({"role": "assistant", "content": "", "refusal": None}),
        {**said("Do"), "service_tier": "default", "system_fingerprint": "f", "usage": None},
        said("ne.", "stop"),
        counted({**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}),
    ],
    "call": [
        chunk({"role": "assistant", "reasoning_content": "Hm."}),
        called(CALL),
        called(REST),
        chunk({}, "tool_calls"),
    ],
}
DELETED = object()
OTHERS = (DELETED, None, 0, 7, 1.5, True, "x", "", [], ["x"], {}, {"x": 1})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value inside a value."""
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs if isinstance(value, dict | list) else ():
        yield from places(inner, (*path, key)) if isinstance(inner, dict | list) else [(*path, key)]


def changed(chunks: list[Any], path: tuple[Any, ...], other: object) -> list[Any]:
    """Return chunks with the value at a path replaced, or deleted."""
    copied: Any = copy.deepcopy(chunks)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    if other is DELETED:
        del inner[path[-1]]
    else:
        inner[path[-1]] = other
    return copied


@pytest.mark.parametrize(
    ("name", "at"), [(name, at) for name in GOOD for at in range(len(GOOD[name]))]
)
async def test_each_value_of_a_stream_can_be_of_any_type(name: str, at: int) -> None:
    faults = []
    async with replaying() as replay:
        for path in places(GOOD[name][at], (at,)):
            for other in OTHERS:
                chunks = changed(GOOD[name], path, other)
                raw = Raw(b"".join(map(event, chunks)) + DONE)
                label = "deleted" if other is DELETED else json.dumps(other)
                place = f"{'.'.join(map(str, path))} {label}"
                found, *_ = await compare(replay, place, Case((raw,), attempts=1))
                faults += found
    assert not faults, "\n".join([f"{len(faults)} differences", *faults])


RANDOM = settings(
    max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None
)


@RANDOM
@given(st.lists(st.integers(1, len(FINE.body) - 1), max_size=12, unique=True))
def test_random_pieces_mean_what_the_whole_means(at: list[int]) -> None:
    raw = replace(FINE, at=tuple(sorted(at)))
    _run_random(Case((raw,), says="Done."))


@RANDOM
@given(
    st.sampled_from(sorted(GOOD)),
    st.lists(
        st.tuples(
            st.integers(0, 10_000),
            st.sampled_from(
                [b"", b"\n", b"\r", b"{", b'"', b":", b"x", b"0", b",", b"\x00", b"data: "]
            ),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_bytes_changed_at_random_mean_the_same_on_both_wires(
    name: str, edits: list[tuple[int, bytes]]
) -> None:
    whole = b"".join(map(event, GOOD[name])) + DONE
    body = bytearray(whole)
    for at, other in edits:
        place = 6 + at % (len(body) - 6)  # what begins with a brace is no stream at all
        body[place : place + 1] = other
    # A finish without a delta counts on one of the wires only: a wanted difference.
    if body.count(b'"delta"') == whole.count(b'"delta"'):
        _run_random(Case((Raw(bytes(body)),), attempts=1))


PIECES = st.one_of(
    st.builds(said, st.text("aż\n .🐢<", max_size=4)),
    st.builds(lambda text: chunk({"reasoning": text}), st.text("hm \n", max_size=3)),
    st.builds(
        lambda index, text: called({"index": index, "function": {"arguments": text}}),
        st.integers(0, 2),
        st.sampled_from(["", "{", "}", '"depth"', ": 1", " "]),
    ),
    st.builds(counted, st.fixed_dictionaries(dict.fromkeys(USAGE, st.integers(1, 99)))),
    st.just(chunk({"role": "assistant", "content": None})),
)
BEGUN = [called({**CALL, "index": i, "id": f"c{i}", "function": {"name": "ls"}}) for i in range(3)]


@settings(RANDOM, max_examples=30)
@given(st.lists(PIECES, max_size=12), st.booleans(), st.sampled_from(["stop", "length", "eos"]))
def test_pieces_in_any_order_mean_the_same_on_both_wires(
    pieces: list[Any], has_calls: bool, finish: str
) -> None:
    begun = BEGUN if has_calls else []
    given = pieces if has_calls else [one for one in pieces if "tool_calls" not in str(one)]
    body = b"".join(map(event, (*begun, *given, chunk({}, finish), counted()))) + DONE

    async def run() -> list[str]:
        async with replaying() as replay:
            found, *_ = await compare(replay, "pieces", Case((Raw(body),), attempts=1))
        return found

    assert not asyncio.run(run())


def _run_random(case: Case) -> None:
    async def run() -> tuple[Told, Told]:
        async with replaying() as replay:
            _, sdk, lean = await compare(replay, "at random", case)
        return plain(sdk), plain(lean)

    sdk, lean = asyncio.run(run())
    # In other words each may say what is wrong, and only one passes over a changed name of a count.
    if not has_tripped(sdk.finish[1]):
        assert (sdk.finish[0], sdk.finish[2]) == (lean.finish[0], lean.finish[2])
        assert sdk.texts == lean.texts
    assert lean.has_ended_as(case)
