"""Print how fast the sanitiser runs on ordinary and on hostile text, and whether it is linear.

python benchmarks/masking.py [megabytes]
"""

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import outrider
from outrider.masking import Masker

MEGABYTE = 1_000_000

PROSE = """
the a of task agent child result reads file and then returns every line that it found while rules
for names (see notes.md) are described elsewhere, with care. It is one point among many; people who
write such tests look around, ask for help and wait until the end when all that was planned has been
done. A short summary says what changed and why, and where somebody who wants more can read on.
Every budget counts tokens; a password never belongs into a report, nor does a key. Authors pass
over small faults in big texts.
"""


def prose(size: int) -> str:
    words = PROSE.split()
    chooser = random.Random(1)
    text = " ".join(chooser.choice(words) for _ in range(min(size, MEGABYTE) // 4))
    return repeated(text, size)


def code(size: int) -> str:
    sources = [
        path
        for path in sorted(Path(outrider.__file__).parent.rglob("*.py"))
        if "masking" not in path.parts  # it is about secrets: no ordinary code
    ]
    stdlib = sorted(Path(json.__file__).parent.parent.glob("*.py"))[:80]
    return repeated("".join(path.read_text(errors="replace") for path in sources + stdlib), size)


def json_logs(size: int) -> str:
    chooser = random.Random(2)

    def line(number: int) -> str:
        entry = {
            "at": number * 17,
            "type": "message_end",
            "id": f"call_{chooser.getrandbits(96):024x}",
            "uuid": f"{chooser.getrandbits(32):08x}-1c2d-4e5f-8a9b-{chooser.getrandbits(48):012x}",
            "url": f"https://example.com/items/{number}?page=2",
            "text": 'read src/app.py, found \\"key\\": 1 and 3 more\\n',
            "usage": {"inputTokens": number, "outputTokens": 12, "totalTokens": number + 12},
        }
        return json.dumps(entry)

    return repeated("\n".join(line(number) for number in range(4000)), size)


def repeated(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


def hostile() -> Iterator[tuple[str, str]]:
    yield "letters", "a"
    yield "password=", "password="
    yield 'password="', 'password="'
    yield "password: x1 ", "password: x1 "
    yield "begin", "-----BEGIN "
    yield "begin key", "-----BEGIN PRIVATE KEY-----"
    yield "begin key line", "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n"
    yield "://", "://"
    yield "://a:", "://a:"
    yield "://a:b@", "://a:b@"
    yield "eyJ", "eyJ"
    yield "eyJ.", "eyJa."
    yield "quotes", '"'
    yield "backslashes", "\\"
    yield "backslash quotes", '\\"'
    yield "token\\", 'token\\":\\'
    yield "dashes", "-"
    yield "underscores", "_"
    yield "sk-", "sk-"
    yield "sk-a1B_", "sk-a1B_"
    yield "spaces", " "
    yield "newlines", "\n"
    yield "authorization", "authorization: "
    yield "cookie", "cookie: a=b; "
    yield "home", "/home/"
    yield "home name", "/home/a.b"
    yield "frames", "    at f (x:1)\n"
    yield "AKIA", "AKIA"
    yield "digits", "1"
    yield "basic", "basic "
    yield "login", "login password "
    yield "-u", " -u a:b"
    yield "-p", " -pabcd mysql"
    yield "at", "  at "
    yield "by", "by ' "


def best(action: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        start = time.process_time()
        action()
        seconds.append(time.process_time() - start)
    return min(seconds)


def report(label: str, make: Callable[[int], str], sizes: list[int], mask: Callable[[str], object]):
    previous = None
    for size in sizes:
        text = make(size)
        seconds = best(lambda: mask(text), 3 if size <= 10 * MEGABYTE else 1)  # noqa: B023
        copying = best(lambda: ("x" + text)[1:], 3)  # noqa: B023
        growth = f"{seconds / previous:5.2f}x time for 2x text" if previous else ""
        speed = size / MEGABYTE / seconds
        print(
            f"{label:22} {size / MEGABYTE:7.2f} MB {speed:8.1f} MB/s "
            f"{seconds / copying:8.0f}x a copy  {growth}"
        )
        previous = seconds


def main() -> None:
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 8
    masker = Masker(project="/home/someone/project", home="/home/someone", secrets=("k" * 20,))
    largest = int(megabytes * MEGABYTE)
    sizes = [largest // 4, largest // 2, largest]
    for label, make in (("prose", prose), ("code", code), ("json logs", json_logs)):
        report(label, make, sizes, masker.text)
    sizes = [largest // 16, largest // 8]
    for label, piece in hostile():
        report(label, lambda size: repeated(piece, size), sizes, masker.text)  # noqa: B023


if __name__ == "__main__":
    main()
