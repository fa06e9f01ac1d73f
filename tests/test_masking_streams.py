"""Text in pieces, and masked text, are masked as the whole text is, in bounded memory."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from masking_examples import (
    A36,
    MASKER,
    ONLY_SECRETS,
    ORDINARY,
    PEM,
    SECRETS,
    dashed,
    hexadecimal,
    mixed,
    streamed,
)
from outrider.masking import Masker

FILLER = st.sampled_from(
    ["word ", "more text, ", "\n", '", "', "x" * 40, " = ", "日本 ", "\\n", "{", "}"]
)

PIECES = st.lists(
    st.one_of(
        FILLER,
        st.sampled_from(ORDINARY),
        st.sampled_from([frame.format(secret) for _, frame, secret in SECRETS]),
        st.sampled_from([json.dumps(frame.format(secret)) for _, frame, secret in SECRETS]),
        st.sampled_from(["/home/alice/project/a.py ", "/home/bob/c ", "password=", "Bearer "]),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(pieces=PIECES, between=st.sampled_from(["", " ", "\n", " lorem ipsum dolor " * 30]))
def test_masking_is_idempotent(pieces: list[str], between: str):
    once = MASKER.text(between.join(pieces))
    assert MASKER.text(once) == once


@settings(max_examples=300, deadline=None)
@given(
    pieces=PIECES,
    between=st.sampled_from([" ", "\n", " lorem ipsum dolor " * 30]),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=20),
)
def test_a_stream_shows_the_same_as_the_whole_text(
    pieces: list[str], between: str, sizes: list[int]
):
    text = between.join(pieces)
    deltas: list[str] = []
    position = 0
    while position < len(text):
        size = sizes[len(deltas) % len(sizes)]
        deltas.append(text[position : position + size])
        position += size
    assert streamed(MASKER, deltas) == MASKER.text(text)


@pytest.mark.parametrize(("kind", "frame", "secret"), SECRETS, ids=[s[0] for s in SECRETS])
def test_a_secret_in_single_characters_is_masked(kind: str, frame: str, secret: str):
    for lead in (0, 199, 263, 500):
        text = ("so " * 200)[:lead] + " " + frame.format(secret) + "\nand so on" * 60
        assert streamed(MASKER, list(text)) == MASKER.text(text), lead


def test_a_long_known_secret_is_masked_in_pieces():
    secret = mixed(1500).replace("a", "-")
    masker = Masker(secrets=(secret,))
    text = "words " * 50 + secret + " words" * 50
    assert (
        streamed(masker, list(text)) == masker.text(text) == text.replace(secret, "[masked:secret]")
    )


@pytest.mark.parametrize(
    "secret",
    [
        f"Authorization: AWS4-HMAC-SHA256 Credential=x, Signature={hexadecimal(64)}",
        f"_password = '{mixed(300)}'",
    ],
)
def test_a_secret_behind_an_endless_name_is_masked_in_pieces(secret: str):
    text = "x" * 300 + secret + "\nand so on" * 60
    assert streamed(MASKER, list(text)) == MASKER.text(text)
    assert "[masked:" in MASKER.text(text)


def test_a_stream_leaves_paths_alone_where_only_secrets_are_masked():
    text = "DB_PASSWORD=hunter2secret in /home/alice/project/app.py"
    assert streamed(ONLY_SECRETS, list(text)) == ONLY_SECRETS.text(text)
    assert "/home/alice/project/app.py" in streamed(ONLY_SECRETS, [text])


def test_a_stream_holds_back_little_prose():
    stream = MASKER.stream()
    text = "an ordinary sentence without any end of line, " * 100
    shown = ""
    for position, letter in enumerate(text):
        shown += stream.feed(letter)
        assert position + 1 - len(shown) <= 300
    assert shown + stream.finish() == text


@pytest.mark.parametrize(
    ("opening", "endless", "shown"),
    [
        (PEM.split("\n")[0] + "\n", mixed(64) + "\n", "[masked:private-key]"),
        ('password = "', mixed(64), 'password = "[masked:secret]'),
        ("eyJ" + mixed(20), mixed(50), "[masked:jwt]"),
        (dashed("ghp", "_"), A36, "[masked:token]"),
        ("Cookie: a=", mixed(20), "Cookie: a=[masked:cookie]"),
        ("DB_PASSWORD=", mixed(20), "DB_PASSWORD=[masked:secret]"),
    ],
)
def test_an_endless_secret_takes_bounded_memory(opening: str, endless: str, shown: str):
    stream = MASKER.stream()
    out = stream.feed(opening)
    largest = 0
    for _ in range(4000):
        out += stream.feed(endless)
        largest = max(largest, stream.held)
    assert (out + stream.finish()).rstrip("\n") == shown
    assert largest < 20_000


def test_a_large_text_is_looked_at_again_only_near_a_secret():
    glued = dashed("key", "-", hexadecimal(32)) + dashed("sk", "-or-v1-", hexadecimal(64))
    text = "an ordinary line of text\n" * 5000
    text = f"{text}{glued}\n{text}password = 'hunter2'\n{text}"
    once = MASKER.text(text)
    assert once.count("[masked:") == 3
    assert MASKER.text(once) == once
    assert streamed(MASKER, [text[n : n + 5000] for n in range(0, len(text), 5000)]) == once


def test_what_only_a_mask_shows_to_be_secret_is_masked():
    text = f"docker run -e DB_PASSWORD=735cab47;{hexadecimal(34)} image"
    assert MASKER.text(text) == "docker run -e DB_PASSWORD=[masked:secret] image"


def test_a_column_is_masked_however_long_the_table_is():
    rows = [f"user{n},{mixed(20, n)},some words about the user" for n in range(300)]
    text = "\n".join(["first line", "name,password,notes", *rows, "", "the end"])
    masked = MASKER.text(text)
    assert masked.count("[masked:secret]") == 300
    for size in (1, 7, 300, 5000):
        assert streamed(MASKER, [text[n : n + size] for n in range(0, len(text), size)]) == masked
    stream = MASKER.stream()
    for row in rows * 20:
        stream.feed(row + "\n")
        assert stream.held < 8000
