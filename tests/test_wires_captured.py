"""Streams as real servers send them: both wires read them alike, in any pieces, up to any cut."""

import re
from pathlib import Path

import pytest

from wires import Case, Raw, assert_alike, bad, ok

FOLDER = Path(__file__).parent / "captured_streams"
STREAMS = {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*.sse"))}
FAILING = {
    "openai-refusal": "refused",
    "openai-error": "The model's provider failed",
    "llamacpp-error": "The model's provider failed",
    "llamacpp-error-field": "",
    "lmstudio-error": "",
    "vllm-error": "The model's provider failed",
    "openrouter-error": "The model's provider failed",
}
SAYING = {
    "deepseek-reasoner": "The thing is here. 😊",
    "ollama-think-tags": "\n\nThe thing is here.",
}


def captured(name: str, **how: object) -> Case:
    raw = Raw(STREAMS[name], **how)
    if name in FAILING:
        return bad(raw, fails=FAILING[name])
    return ok(raw, says="Done." if "call" in name else SAYING.get(name, "The thing is here."))


@pytest.mark.parametrize("name", STREAMS)
async def test_a_captured_stream_means_the_same_on_both_wires(name: str) -> None:
    await assert_alike(f"captured: {name}", captured(name))


@pytest.mark.parametrize("name", STREAMS)
async def test_a_captured_stream_may_come_in_any_pieces(name: str) -> None:
    for step in (11, 64):
        places = tuple(range(step, len(STREAMS[name]), step))
        await assert_alike(f"captured: {name}", captured(name, at=places, framing="length"))


def test_every_captured_stream_says_where_it_is_from() -> None:
    listed = re.findall(
        r"`([a-z]+-[a-z-]+)`(?=[^|]*\|[^|]+\|[^|]+\|\n)", (FOLDER / "README.md").read_text()
    )
    assert sorted(listed) == sorted(STREAMS)
