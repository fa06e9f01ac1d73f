"""An answer as it comes: in blocks that are whole, with nothing lost and nothing left to fire."""

import asyncio
from contextlib import closing

import pytest
from hypothesis import given, strategies as st

from outrider.protocol.events import MessageUpdateEvent
from outrider.surfaces.terminal import output, progress
from outrider.surfaces.terminal.markdown_blocks import Streamed

LINES = st.lists(st.sampled_from(["a", "", " ", "```", "````", "~~~py", "  ```", "b ```"]))


def blocks_of(text, size):
    streamed, blocks = Streamed(), []
    for start in range(0, len(text), size):
        streamed.add(text[start : start + size])
        blocks += streamed.take_blocks()
    return [*blocks, streamed.text]


@given(LINES, st.integers(1, 9))
def test_blocks_are_the_same_whatever_the_pieces_and_nothing_is_lost(lines, size):
    text = "\n".join(lines)
    assert blocks_of(text, size) == blocks_of(text, len(text) or 1)
    assert "".join(blocks_of(text, size)) == text


def test_a_block_ends_at_a_blank_line_but_not_within_code():
    code = "````\nx\n\n```\n\n~~~\n````\n"
    assert blocks_of(f"One.\n\n{code}\nTwo.", 3) == ["One.\n\n", f"{code}\n", "Two."]


class Counted(list):
    """Lines that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, key):
        Counted.looks += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
        return super().__getitem__(key)


def test_every_line_of_a_long_block_is_looked_at_once():
    streamed, total = Streamed(), 2_000
    streamed._lines = Counted()
    streamed.add("```\n")
    for _ in range(total):
        streamed.add("x\n")
        assert streamed.take_blocks() == []
    assert Counted.looks <= total + 1


@pytest.mark.parametrize("piece", ["x\n", "x" * 200])
def test_only_the_end_is_kept_for_someone_who_draws_only_that(piece):
    view = progress.View()
    for _ in range(2 * progress.MAX_TAIL // len(piece)):
        view.watch("", MessageUpdateEvent(1, piece))
    assert view._answer.text == "" and view._tail.endswith(piece)
    assert len(view._tail) == progress.MAX_TAIL


def test_a_block_of_any_length_is_printed_from_its_start(monkeypatch, capsys):
    monkeypatch.setattr(output, "is_plain", lambda _: False)
    with closing(progress.View(keeps_answer=True)) as view:
        for line in ("```\n", "the start\n", *["x" * 70 + "\n"] * 2_000, "the end\n"):
            view.watch("", MessageUpdateEvent(1, line))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [lines.count(line) for line in ("the start", "x" * 70, "the end")] == [1, 2_000, 1]


async def test_no_line_is_said_once_a_view_is_closed(monkeypatch, capsys):
    """A timer that another one took the place of would speak into what comes next."""
    monkeypatch.setattr(progress, "MAX_SILENCE_SECONDS", 0.01)
    view = progress.View(keeps_answer=True)
    view._rows = {"": progress.Row("main")}
    with view.pause():
        view.watch("1", "explorer 1a2b3c4d")
    view.close()
    assert "explorer 1a2b3c4d started" in capsys.readouterr().err
    # Timers end in the order of their times: behind this one, an older one would have spoken.
    await asyncio.sleep(2 * progress.MAX_SILENCE_SECONDS)
    assert capsys.readouterr().err == ""
