"""Prints how fast events are collected, text is sanitised and reports are validated, as JSON.

python -m benchmarks.collecting speed MEGABYTES      MB/s of each, and of a plain copy
python -m benchmarks.collecting growth MEGABYTES     seconds of sanitising as the text grows
python -m benchmarks.collecting memory MEGABYTES     the most memory that collecting takes
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.masking import code, json_logs, prose
from outrider.delegation.collecting import Collector
from outrider.delegation.event_masking import EventMasker
from outrider.delegation.output_limits import LineReader
from outrider.masking import Masker
from outrider.protocol import jsonl
from outrider.records.runs import RunRecorder
from outrider.schemas.output_schema import load_schema
from outrider.settings.keys import LimitsConfig

MEGABYTE = 1_000_000
CHUNK = 1 << 18
NO_LIMIT = 1 << 40
ROUNDS = 5
SMALL_RESULT, LARGE_RESULT = 4_000, 64_000

REPORT_SCHEMA = {
    "type": "object",
    "required": ["findings"],
    "properties": {
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["file", "line", "text"],
                "properties": {
                    "file": {"type": "string", "pattern": "^[a-z_/]+\\.py$"},
                    "line": {"type": "integer", "minimum": 1},
                    "text": {"type": "string", "maxLength": 2_000},
                },
                "additionalProperties": False,
            },
        }
    },
}


def turn_of_events(result: int) -> bytes:
    """Return the events of one turn: some text in pieces, and a tool's result of that size."""
    words = prose(1_600)
    pieces = [words[start : start + 80] for start in range(0, len(words), 80)]
    usage = {"input": 900, "output": 400, "turns": 1}
    envelope = {"code": 0, "message": "ok", "data": {"text": code(result)}, "meta": {}}
    events = [
        {"type": "turn_start", "turn": 1},
        *({"type": "message_update", "turn": 1, "delta": piece} for piece in pieces),
        {"type": "message_end", "turn": 1, "text": words, "usage": usage},
        {"type": "tool_start", "id": "c1", "name": "read", "args": {}, "timeoutMs": 1_000},
        {"type": "tool_result_end", "id": "c1", "name": "read", "envelope": envelope},
        {"type": "turn_end", "turn": 1, "usage": usage},
    ]
    return b"".join(jsonl.encode({**event, "at": 1}) + b"\n" for event in events)


def chunks(size: int, result: int) -> Iterator[bytes]:
    """Yield `size` bytes of events in chunks, as a pipe does."""
    turn = turn_of_events(result)
    block = turn * (CHUNK // len(turn) + 2)
    sent = 0
    while sent < size:
        # Each chunk continues where the last one stopped.
        offset = sent % len(turn)
        yield block[offset : offset + CHUNK]
        sent += CHUNK


def collect(size: int, folder: Path, result: int = SMALL_RESULT) -> None:
    """Collect `size` bytes of events as a delegation does."""
    limits = LimitsConfig(stdout_bytes=NO_LIMIT, events=NO_LIMIT)
    lines = LineReader(max_bytes=limits.stdout_bytes, max_line=limits.event_bytes)
    masker = Masker(project="/home/someone/project", home="/home/someone", secrets=("k" * 20,))
    with RunRecorder.create(folder) as run:
        collector = Collector(run, limits.events)
        gate = EventMasker(masker, collector.drop)
        for chunk in chunks(size, result):
            for line in lines.feed(chunk):
                for masked in gate.events(line):
                    collector.take(masked)
        assert run.problem is None, run.problem


def copy(size: int, folder: Path) -> None:
    """Write the same events to a file as they are."""
    with (folder / "copy").open("wb") as file:
        for chunk in chunks(size, SMALL_RESULT):
            file.write(chunk)


def validate(reports: list[bytes]) -> None:
    """Decode and validate reports."""
    schema = load_schema(REPORT_SCHEMA)
    for report in reports:
        assert schema.judge(jsonl.decode(report)).is_valid


def report_bytes() -> bytes:
    """Return a report of fifty findings."""
    finding = {"file": "src/outrider/main.py", "line": 12, "text": prose(300)}
    return jsonl.encode({"findings": [finding] * 50})


def each(action: Callable[[str], object], texts: list[str]) -> None:
    """Apply an action to each text of a megabyte; `growth` measures longer ones."""
    for text in texts:
        action(text)


def speed(action: Callable[[], object], size: int) -> float:
    """Return the best of some rounds, in MB/s."""
    best = min(_seconds(action) for _ in range(ROUNDS))
    return size / MEGABYTE / best


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def speeds(size: int, folder: Path) -> dict[str, float]:
    """Return the MB/s of each action."""
    masker = Masker(project="/home/someone/project", home="/home/someone", secrets=("k" * 20,))
    report = report_bytes()
    reports = [report] * (size // len(report) + 1)
    found = {
        "copying events to a file": speed(lambda: copy(size, folder), size),
        "collecting events": speed(lambda: collect(size, folder), size),
        "validating reports": speed(lambda: validate(reports), len(report) * len(reports)),
        "copying reports in memory": speed(
            lambda: [bytes(bytearray(each)) for each in reports], len(report) * len(reports)
        ),
    }
    for name, make in (("prose", prose), ("code", code), ("JSON logs", json_logs)):
        whole = make(size)
        texts = [whole[start : start + MEGABYTE] for start in range(0, size, MEGABYTE)]
        found[f"sanitising {name}"] = speed(lambda: each(masker.text, texts), size)  # noqa: B023
        found[f"copying {name} in memory"] = speed(
            lambda: each(lambda text: ("x" + text)[1:], texts),  # noqa: B023
            size,
        )
    return found


def growth(size: int) -> dict[str, float]:
    """Return the seconds that sanitising takes for a quarter, a half and the whole of a text."""
    masker = Masker(project="/home/someone/project", home="/home/someone", secrets=("k" * 20,))
    found: dict[str, float] = {}
    for part in (size // 4, size // 2, size):
        text = prose(part)
        found[f"{part // MEGABYTE}"] = _seconds(lambda: masker.text(text))  # noqa: B023
    return found


def most_memory() -> int:
    """Return this process's peak memory; `getrusage` would include its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    """Do what the first argument says."""
    what, size = sys.argv[1], int(float(sys.argv[2]) * MEGABYTE)
    with tempfile.TemporaryDirectory() as name:
        if what == "speed":
            print(json.dumps(speeds(size, Path(name))))
        elif what == "growth":
            print(json.dumps(growth(size)))
        else:
            seconds = _seconds(lambda: collect(size, Path(name), LARGE_RESULT))
            print(json.dumps({"bytes": size, "seconds": seconds, "most": most_memory()}))


if __name__ == "__main__":
    main()
