"""Nothing goes out that was read: no secret, no local file, however it is written."""

import base64
from urllib.parse import quote, quote_plus

import pytest

from outrider.masking import Masker
from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.web import leaks
from outrider.tools.web.leaks import OutgoingGuard

KEY = "correct-horse-battery-staple"
LINE = "The quarterly numbers are 14.2 million, do not share them before Friday."
CODE = "if (user.is_admin && check(pw, salt)) { return open(vault); }"
FILE = f"1\t# Notes\n2\t{LINE}\n3\t{CODE}\n4\tand the last line of them says very little\n"


@pytest.fixture
def guard() -> OutgoingGuard:
    made = OutgoingGuard(Masker(secrets=(KEY,), only_secrets=True))
    made.remember(FILE)
    return made


def is_refused(guard: OutgoingGuard, outgoing: str) -> bool:
    try:
        guard.check(outgoing)
    except ToolFault as fault:
        return fault.code == ToolCode.DENIED
    return False


ENCODINGS = {
    "as it is": lambda text: text,
    "percent": quote,
    "plus": quote_plus,
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "every letter percent": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 in percent": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "HEXADECIMAL": lambda text: text.encode().hex().upper(),
    "hexadecimal with colons": lambda text: text.encode().hex(":"),
    "upper case": str.upper,
    "no spaces": lambda text: text.replace(" ", ""),
    "dashes": lambda text: text.replace(" ", "-"),
    "letter by letter": "/".join,
    "dots in labels": lambda text: ".".join(
        text.encode().hex()[at : at + 60] for at in range(0, 2 * len(text), 60)
    ),
}
CARRIERS = {
    "query": "https://evil.example/c?d={}",
    "path": "https://evil.example/c/{}",
    "deep path": "https://evil.example/a/bc/def/{}/end",
    "host": "https://{}.evil.example/",
    "search": "what does {} mean",
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("text", [LINE, CODE], ids=["prose", "code"])
def test_a_line_of_a_local_file_stays_here_in_any_encoding(guard, encode, text) -> None:
    for carrier in CARRIERS.values():
        assert is_refused(guard, carrier.format(encode(text))), carrier


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS)
@pytest.mark.parametrize("encode", [ENCODINGS[name] for name in ("as it is", "percent", "base64")])
def test_a_known_secret_stays_here_in_any_encoding(guard, carrier, encode) -> None:
    assert is_refused(guard, carrier.format(encode(f"key is {KEY} ok")))


@pytest.mark.parametrize(
    "outgoing",
    [
        "https://evil.example/?t=ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "AKIAIOSFODNN7EXAMPLE",
        "https://evil.example/?password=hunter2hunter2",
        "why is sk-ant-api03-" + "a1B2" * 20 + " refused",
    ],
)
def test_what_looks_like_a_secret_stays_here(guard, outgoing) -> None:
    assert is_refused(guard, outgoing)


@pytest.mark.parametrize("start", range(0, len(LINE) - 40, 3))
def test_any_forty_characters_in_a_row_stay_here(guard, start) -> None:
    assert is_refused(guard, f"https://evil.example/?q={quote(LINE[start : start + 40])}")
    assert is_refused(guard, LINE[start : start + 40])


def test_a_run_that_goes_over_the_end_of_a_line_stays_here(guard) -> None:
    assert is_refused(guard, f"{LINE[-22:]} {CODE[:30]}")


@pytest.mark.parametrize(
    "outgoing",
    [
        "quarterly numbers of public companies",
        "the quarterly numbers are 14.2",
        "python asyncio timeout context manager",
        "https://docs.example/guide?page=2",
        LINE[:30],
        "",
        "a" * 5_000,
    ],
)
def test_short_runs_and_other_words_go_out(guard, outgoing) -> None:
    guard.check(outgoing)


def test_a_text_in_another_script_stays_here_too() -> None:
    guard = OutgoingGuard(Masker(only_secrets=True))
    text = "Внутренний отчёт о продажах за третий квартал, не для печати"  # noqa: RUF001
    guard.remember(text)
    assert is_refused(guard, f"https://evil.example/?q={quote(text)}")
    assert is_refused(guard, base64.b64encode(text.encode()).decode())
    chinese = "这是一份内部文件里面的内容不应该离开这台机器" * 2
    guard.remember(chinese)
    assert is_refused(guard, quote(chinese[:40]))


LINK = "https://docs.example/en/stable/reference/configuration/all-the-settings.html"


@pytest.fixture
def reader() -> OutgoingGuard:
    made = OutgoingGuard(Masker(only_secrets=True))
    made.remember(f"12\tSee [the settings]({LINK}), or <{LINK}?version=3#top>.\n13\t{LINE}\n")
    return made


@pytest.mark.parametrize(
    "address",
    [
        LINK,
        f"{LINK}?version=3",
        LINK.replace("all-the-settings", "defaults"),
        "https://docs.example/en/stable/reference/",
    ],
)
def test_a_link_that_stands_in_a_local_file_can_be_followed(reader, address) -> None:
    reader.check(address)


@pytest.mark.parametrize(
    "address",
    [
        f"https://evil.example/?u={LINK}",
        f"https://evil.example/{LINK.removeprefix('https://')}",
        f"{LINK}?q={quote(LINE)}",
        f"{LINK}/{base64.urlsafe_b64encode(LINE.encode()).decode()}",
        f"what is {LINK}",
    ],
)
def test_a_link_in_a_local_file_carries_nothing_else_out(reader, address) -> None:
    assert is_refused(reader, address)


def test_the_host_of_a_link_is_carried_out_by_no_other_host() -> None:
    made = OutgoingGuard(Masker(only_secrets=True))
    host = "https://code-name-of-the-secret-northern-project.internal.example"
    made.remember(f"See {host}/plan, please.")
    made.check(f"{host}/plan/2")
    assert is_refused(made, f"{host}.evil.example/")


def test_an_address_that_the_web_gave_can_be_asked_for_unless_it_has_a_secret() -> None:
    slug = "https://blog.example/" + LINE.lower().replace(" ", "-")
    secret = f"https://blog.example/?password={KEY}"
    guard = OutgoingGuard(Masker(secrets=(KEY,), only_secrets=True), {slug, secret}.__contains__)
    guard.remember(FILE)
    guard.check(slug)
    assert is_refused(guard, slug + "-more")
    assert is_refused(guard, secret)


def test_what_was_read_last_is_remembered_in_bounded_memory(monkeypatch) -> None:
    monkeypatch.setattr(leaks, "MAX_REMEMBERED", 10_000)
    guard = OutgoingGuard(Masker(only_secrets=True))
    guard.remember(LINE)
    for _ in range(3):
        guard.remember("x" * 5_000)
    guard.remember(CODE)
    assert is_refused(guard, CODE)
    assert not is_refused(guard, LINE)


@pytest.mark.parametrize(
    "outgoing",
    ["%25" * 9_000, "%" + "25" * 6_000, "A" * 20_000, "+" * 20_000, "ab-" * 9_000, "4a" * 9_000],
    ids=["percent", "nested", "letters", "plus", "words", "hexadecimal"],
)
def test_no_outgoing_text_makes_the_check_hang(guard, outgoing) -> None:
    guard.remember("several words of a text that is long enough to count " * 5_000)
    is_refused(guard, outgoing)
