"""How often `find {about}` names the right file: beside BM25, ripgrep and the former version.

    python -m benchmarks.find_quality [--held-out | --written] [--former COMMIT] [--only PROJECT …]

The questions are made in `find_questions.py`. Every second one is held out. `--written` asks those
of `find_written.json` instead: written by hand about other projects, some of them in Chinese.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.environments import ENVS, ROOT
from benchmarks.find_questions import SOURCES, Question, copied, trees, words, written
from outrider.tools.context import ToolContext
from outrider.tools.files.find import find
from outrider.tools.files.ripgrep import ripgrep

AIMS = {1: 1.6, 3: 1.25}
BM25S = "bm25s==0.3.16"

Contestant = Callable[[str], list[str]]
"""Returns the paths that it finds for a question, best first."""


def outrider(tree: Path) -> Contestant:
    """Return `find {about}` itself."""
    context = ToolContext(tree)
    return lambda text: [one["path"] for one in find(context, about=text, limit=5)["places"]]


def bm25(tree: Path, *, split: bool) -> Contestant:
    """Return `bm25s` over whole files, with names as they are or split into their words."""
    place = ENVS / "bm25s"
    if not place.exists():
        pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target")
        subprocess.run([*pip, str(place), BM25S], check=True)
    sys.path.append(str(place))
    import bm25s

    listed = subprocess.run(
        [ripgrep(()), "--files", "--hidden"], cwd=tree, capture_output=True, text=True, check=True
    )
    paths = sorted(listed.stdout.splitlines())
    texts = [(tree / path).read_bytes()[:4_000_000].decode(errors="replace") for path in paths]
    if split:
        texts = [" ".join(words(text)) for text in texts]
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)

    def asked(text: str) -> list[str]:
        tokens = bm25s.tokenize(text, stopwords="en", show_progress=False)
        found, _ = index.retrieve(tokens, k=min(5, len(paths)), show_progress=False)
        return [paths[number] for number in found[0]]

    return asked


def by_ripgrep(tree: Path) -> Contestant:
    """Return ripgrep: the files with the most of the words, then with the most lines."""

    def asked(text: str) -> list[str]:
        score: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for word in {word for word in text.lower().split() if len(word) > 3}:
            command = [ripgrep(()), "-i", "-F", "--count", "--", word, "./"]
            rows = subprocess.run(
                command, cwd=tree, capture_output=True, text=True, errors="replace"
            )
            for row in rows.stdout.splitlines():
                path, _, count = row.rpartition(":")
                score[path.removeprefix("./")][0] += 1
                score[path.removeprefix("./")][1] += int(count)
        return sorted(score, key=lambda path: (-score[path][0], -score[path][1], path))[:5]

    return asked


FORMER = """
import json, os, re, sys
sys.path.insert(0, sys.argv[1])
import outrider
assert outrider.__file__.startswith(sys.argv[1]), outrider.__file__
sys.path.insert(1, sys.argv[1] + "/../tests")
import asyncio
from pathlib import Path
import test_embedded_model as embedded
for line in sys.stdin:
    run = asyncio.run(embedded.ask(Path(sys.argv[2]), json.loads(line)))
    print(json.dumps([place.rpartition(":")[0] for place in run.places]), flush=True)
"""


def former(tree: Path, commit: str) -> Contestant:
    """Return the embedded model of an earlier commit, from its sources in the history."""
    folder = SOURCES / f"former-{commit}"
    if not folder.exists():
        folder.mkdir()
        pipe = f"git archive {commit} src tests | tar -x -C {folder}"
        subprocess.run(pipe, shell=True, cwd=ROOT, check=True)
    command = [sys.executable, "-c", FORMER, str(folder / "src"), str(tree)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None

    def asked(text: str) -> list[str]:
        process.stdin.write(json.dumps(text) + "\n")
        process.stdin.flush()
        return list(dict.fromkeys(json.loads(process.stdout.readline())))

    return asked


def asked_about(options: argparse.Namespace) -> Iterator[tuple[str, Path, list[Question]]]:
    """Yield the projects, the folders that are searched and the questions."""
    if options.written:
        yield from written()
        return
    for name, origin in trees():
        tree, questions = copied(name, origin)
        yield name, tree, questions[options.held_out :: 2]


def main() -> int:
    """Print the shares at 1, 3 and 5; the exit code says whether the aims were met."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--held-out", action="store_true", help="the other half of the questions")
    parser.add_argument("--written", action="store_true", help="questions written by hand")
    parser.add_argument("--former", metavar="COMMIT", help="beside an earlier embedded model")
    parser.add_argument("--only", nargs="+", default=[], metavar="PROJECT")
    parser.add_argument("--ours", action="store_true", help="without the others")
    parser.add_argument("--wrong", action="store_true", help="print what wasn't found")
    options = parser.parse_args()
    ranks: dict[tuple[str, str], list[int]] = defaultdict(list)
    spent: dict[str, float] = defaultdict(float)
    for name, tree, questions in asked_about(options):
        if options.only and name not in options.only:
            continue
        contestants: dict[str, Contestant] = {"find": outrider(tree)}
        if not options.ours:
            contestants |= {
                "bm25s": bm25(tree, split=False),
                "bm25s, names split": bm25(tree, split=True),
            }
            contestants |= {"ripgrep": by_ripgrep(tree)}
        if options.former:
            contestants["former"] = former(tree, options.former)
        for asked in questions:
            for title, contestant in contestants.items():
                begun = time.perf_counter()
                found = contestant(asked.text)
                spent[title] += time.perf_counter() - begun
                rank = next((at for at, path in enumerate(found) if asked.is_answer(path)), 99)
                for group in ("all", asked.kind, name):
                    ranks[title, group].append(rank)
                if options.wrong and title == "find" and rank > 2:
                    print(f"{name} {asked.kind}: {asked.text}\n   {asked.answer}\n   {found[:3]}")
    return report(ranks, spent)


def report(ranks: dict[tuple[str, str], list[int]], spent: dict[str, float]) -> int:
    """Print a table; returns 0 where the aims are met, or nobody to compare with took part."""
    shares = {
        key: [sum(rank < at for rank in found) / len(found) for at in (1, 3, 5)]
        for key, found in ranks.items()
    }
    for (title, group), share in sorted(
        shares.items(), key=lambda one: (one[0][1] != "all", one[0][1])
    ):
        row = " ".join(f"{one:.2f}" for one in share)
        asked = len(ranks[title, group])
        print(
            f"{group:16} {title:20} {row}  of {asked}, "
            f"{spent[title] / len(ranks[title, 'all']):.2f} s"
        )
    ours, theirs = shares["find", "all"], shares.get(("bm25s", "all"))
    met = theirs is None or all(ours[at // 2] >= AIMS[at] * theirs[at // 2] for at in AIMS)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
