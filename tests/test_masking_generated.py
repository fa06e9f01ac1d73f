"""Random values in many contexts are masked, and the source of packages is left alone."""

import random
import string
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.masked import (  # noqa: E402
    ALPHABETS,
    CONTEXTS,
    HELD_OUT,
    MASKER,
    changed_lines,
    corpus,
    passed,
)

from outrider.masking import Masker, search, tokens  # noqa: E402
from outrider.masking.randomness import looks_random  # noqa: E402

VALUES = 8
PACKAGES = ("anthropic", "pygments", "requests", "urllib3", "pydantic")


def shown(found: dict[tuple[str, str], list[str]]) -> str:
    """Return what passed, by context and alphabet."""
    return "\n".join(
        f"{context} / {alphabet}: {left}" for (context, alphabet), left in found.items() if left
    )


def test_there_are_sixty_contexts_and_five_alphabets():
    assert len(CONTEXTS) >= 60
    assert len(ALPHABETS) >= 5


@pytest.mark.parametrize("contexts", [CONTEXTS, HELD_OUT], ids=["contexts", "held out"])
def test_at_most_one_random_value_in_two_hundred_passes(contexts: dict[str, str]):
    found = passed(contexts, VALUES)
    assert sum(map(len, found.values())) <= len(found) * VALUES / 200, shown(found)


@pytest.mark.parametrize("alphabet", [name for name in ALPHABETS if name != "words joined"])
def test_a_random_value_looks_random(alphabet: str):
    chooser = random.Random(3)
    values = [ALPHABETS[alphabet](chooser, chooser.randint(16, 64)) for _ in range(1000)]
    missed = [value for value in values if not looks_random(value)]
    assert len(missed) <= 5, missed


SIGNS = "!@#$%^&*-_=+.?~,;()[]<>"
LINES = [
    "db:\n  password: {}\n  port: 1\n",
    "[db]\npassword = {}\nport = 1\n",
    "spring.datasource.password={}\n",
    "password: |\n  {}\nnext: 1\n",
    "db.example.com:5432:shop:al:{}\n",
    "Use this password: {}\n",
]


@pytest.mark.parametrize("line", LINES)
def test_a_generated_password_with_signs_is_masked_to_the_end_of_its_line(line: str):
    chooser = random.Random(9)
    letters = 2 * string.ascii_letters + 2 * string.digits + SIGNS
    values = ["".join(chooser.choices(letters, k=chooser.randint(14, 24))) for _ in range(200)]
    left = [
        (value, masked)
        for value in values
        for masked in [MASKER.text(line.replace("{}", value))]
        if any(value[at : at + 5] in masked for at in range(len(value) - 4))
    ]
    assert len(left) <= len(values) / 20, left


def test_names_do_not_look_random():
    root = Path(sysconfig.get_path("stdlib"))
    names = {
        word
        for path in root.glob("[a-m]*.py")
        for word in path.read_text(errors="replace").replace(".", " ").split()
        if word.isidentifier() and len(word) >= 8
    }
    missed = sorted(filter(looks_random, names))
    assert len(missed) <= len(names) / 1000, missed


def test_at_most_one_line_of_source_in_ten_thousand_is_changed():
    lines, changed = changed_lines(corpus(PACKAGES))
    assert lines > 100_000
    assert sum(map(len, changed.values())) <= lines / 10_000, changed


PARTS = [
    *(part for prefix in tokens._PREFIXES for part in (prefix, prefix.strip("_-."))),
    *("AKIA", "AIza", "ATBB", "LTAI", "EAA", "SK", "dapi", "key-", "eyJ", "eyJh", "J", "-----"),
    *("password", "pass", "pwd", "secret", "token", "key", "auth", "cookie", "bearer", "basic"),
    *("-u", "-p", "--user", "login", "sig", "env", "set-x", "BEGIN", "home", "Users", "root"),
    *string.ascii_letters,
    *string.digits,
    *"_-_-",
]


def test_no_detector_finds_anything_in_a_word_that_none_is_asked_about(
    monkeypatch: pytest.MonkeyPatch,
):
    chooser = random.Random(7)
    words = {"".join(chooser.choices(PARTS, k=chooser.randint(1, 12))) for _ in range(60_000)}
    words |= {make(chooser, size) for make in ALPHABETS.values() for size in (4, 8, 15) * 300}
    short = [word for word in words if search.compiled(search._SHORT_WORD).fullmatch(word)]
    assert len(short) > 10_000
    assert not search.compiled(search._SHORT_WORD).fullmatch("eyJhbGciOiJIUzI")
    monkeypatch.setattr(search, "_SHORT_WORD", "(?!)")
    everything = search.Search((), "/home/someone/project", "/home/someone")
    assert [word for word in short if everything.searched(word)[1] != word] == []


def test_a_known_secret_that_is_a_short_word_is_masked():
    masker = Masker(secrets=("hunter2-x",))
    assert masker.text("hunter2-x") == "[masked:secret]"
    assert masker.value({"id": "a-hunter2-x"})[0] == {"id": "a-[masked:secret]"}
    stream = masker.stream()
    assert stream.feed("a-hunt") + stream.feed("er2-x") + stream.finish() == "a-[masked:secret]"
