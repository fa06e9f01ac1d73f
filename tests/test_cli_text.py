"""Text on its way to a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given, strategies as st

from outrider.surfaces.text import (
    clean,
    clean_line,
    duration,
    escape_json,
    fit,
    pad,
    quoted,
    width,
)

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
STEERING = {*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066"} - {"\n", "\t"}


@given(ANY_TEXT)
def test_nothing_that_steers_passes(text):
    assert not STEERING & set(clean(text))
    clean(text).encode()  # and nothing that no encoding can hold


@given(ANY_TEXT)
def test_nothing_that_is_hidden_passes_but_joiners_between_what_they_join(text):
    hidden = {char for char in clean(text) if unicodedata.category(char) in HIDDEN}
    assert hidden <= {"\n", "\t", "\u200c", "\u200d"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("access\u202etxt.exe", r"access\u202etxt.exe"),
        ("rm\u200b -rf\u00ad /\ufeff", r"rm\u200b -rf\xad /\ufeff"),
        ("\U000e0072\U000e006d", r"\U000e0072\U000e006d"),  # tags: ASCII that nobody sees
        ("x\u200dy\u200c |\u200d\ufe0f", r"x\u200dy\u200c |\u200d\ufe0f"),
        ("\u3164\u034f\u2066", r"\u3164\u034f\u2066"),
        ("\u2065\uffff\U000e0fff", r"\u2065\uffff\U000e0fff"),  # reserved for what isn't seen
        ("a\ufe0f, ❤\ufe0f\ufe0f", "a\\ufe0f, ❤\ufe0f\\ufe0f"),
    ],
)
def test_what_moves_or_hides_text_is_shown(text, shown):
    assert clean(text) == shown
    assert clean_line(text) == shown
    assert quoted(text, 100) == f"  {shown}"


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d💻 👩🏽\u200d🚀 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 \u2139\ufe0f ‼\ufe0f",
        "\U0001fae9 \U0001f9d1\u200d\U0001fae9",  # newer than this Python may be
        "\u0645\u06cc\u200c\u062e\u0648",  # Persian
        "क्\u200dष",
        "“é”\u00a0—",
    ],
)
def test_what_gives_letters_and_emoji_their_shape_stays(text):
    assert clean(text) == text


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.sampled_from("äß大🙂\n\t")))
def test_ordinary_text_stays_as_it_is(text):
    assert clean(text) == text


@given(ANY_TEXT)
def test_one_line_is_one_line(text):
    assert len(clean_line(text).splitlines()) <= 1


@given(st.text())
def test_escaped_json_means_the_same(text):
    escaped = escape_json(json.dumps({"a": text}, ensure_ascii=False))
    assert json.loads(escaped) == {"a": text}
    assert not STEERING & set(escaped)


@given(st.text(st.characters(min_codepoint=32)), st.integers(2, 40))
def test_fitted_text_fits(text, columns):
    assert width(fit(text, columns)) <= columns
    assert width(pad(fit(text, columns), columns)) == columns


@pytest.mark.parametrize(
    ("milliseconds", "told"), [(950, "950 ms"), (12_345, "12.3 s"), (245_000, "4 min 05 s")]
)
def test_durations_read_well(milliseconds, told):
    assert duration(milliseconds) == told


def test_what_is_quoted_passes_for_no_line_of_ours_and_tells_what_is_hidden():
    assert quoted("a\nAllow it? \x1b[2J", 100) == "  a\n  Allow it? ␛[2J"
    assert quoted("x" * 12, 10) == f"  {'x' * 10}\n  [2 MORE CHARACTERS ARE NOT SHOWN]"
