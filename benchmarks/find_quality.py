"""How often `find {about}` names the right file: beside BM25, ripgrep and the former version.

    python -m benchmarks.find_quality [--held-out] [--former COMMIT] [--only PROJECT …]

Downloads source packages (once, into `.envs/sources`), and makes questions from their docstrings,
changelog lines and test names. The words of the answer's own name are taken out of a question, and
a docstring that became one is taken out of the searched copy. Every second question is held out.
"""

import argparse
import ast
import json
import random
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.environments import ENVS, ROOT
from outrider.tools.context import ToolContext
from outrider.tools.files.find import find
from outrider.tools.files.ripgrep import ripgrep

SOURCES = ENVS / "sources"
PYPI = ("django==5.2.8", "celery==5.5.3", "scrapy==2.13.3", "zstandard==0.25.0", "libsass==0.23.0")
NPM = ("rxjs@7.8.2", "three@0.181.0", "react-native@0.82.1")
INSTALLED = ("prompt_toolkit", "pydantic_ai")
PER_KIND = 24
MIN_WORDS = 5
AIMS = {1: 1.6, 3: 1.25}
CODE = (
    ".py",
    ".ts",
    ".tsx",
    ".js",
    ".jsx",
    ".c",
    ".h",
    ".cpp",
    ".hpp",
    ".java",
    ".kt",
    ".mm",
    ".m",
)
NOT_SOURCE = re.compile(
    r"(^|/)(tests?|__tests__|docs?|examples?|build|dist|node_modules|vendor)/|test"
)
BLOCK = re.compile(r"(?P<comment>/\*[*!]?\s.*?\*/)[ \t]*\n(?P<code>[^\n]+)", re.DOTALL)
NAME = re.compile(r"(?:function|class|interface|struct|enum|fun|const)\s+(\w+)|(\w+)\s*\(")
CHANGES = re.compile(r"(changelog|changes|news|history|release)", re.IGNORECASE)
TELLING = re.compile(r"[A-Za-z]{4,}")
EMPTY = frozenset(
    re.findall(
        r"\w+",
        """this that these those with when where which from into will have been only used uses using
        also instead method class function return returns deprecated removed added fixed argument
        should their them then than some other object given default value values test tests""",
    )
)
Question = tuple[str, str, str, str]
"""Project, kind, text, and the path of the file that answers."""


def words(text: str) -> list[str]:
    """Return the words of a text or name, in lower case."""
    return [w.lower() for w in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", text)]


def tells(text: str) -> bool:
    """Return whether a text has enough words to be a question."""
    telling = {word.lower() for word in TELLING.findall(text)} - EMPTY
    return len(telling) >= MIN_WORDS and len(text.split()) <= 40


def without(text: str, names: str) -> str:
    """Return a text without the words of names, in any form."""
    roots = {word[:5] for word in words(names)}
    kept = [w for w in re.findall(r"[\w'-]+", text) if not {p[:5] for p in words(w)} & roots]
    return " ".join(kept)


def first_sentence(comment: str) -> str:
    """Return what a docstring or comment says first, without its marks."""
    text = re.sub(r"^[ \t]*(/\*[*!]?|\*/?|//+)|\*/", "", comment, flags=re.MULTILINE).strip()
    text = re.split(r"\n\s*\n|(?<=[.!?])\s|\n\s*[@:\\]", text)[0]
    return " ".join(re.sub(r"[`{}<>*]|@\w+", " ", text).split())


def trees() -> Iterator[tuple[str, Path]]:
    """Yield the projects with their untouched sources, which the first call downloads."""
    SOURCES.mkdir(parents=True, exist_ok=True)
    for wanted in (*PYPI, *NPM):
        name = re.split("[=@]", wanted)[0]
        folder = SOURCES / name
        if not folder.exists():
            print(f"Downloading {wanted} (once) …", file=sys.stderr)
            _unpack(_download(wanted), folder)
        yield name, folder
    for name in INSTALLED:
        spec = find_spec(name)
        if spec and spec.origin:
            yield name, Path(spec.origin).parent


def _download(wanted: str) -> Path:
    place = SOURCES / "archives"
    place.mkdir(exist_ok=True)
    command = ["npm", "pack", "--silent", wanted]
    if wanted in PYPI:
        flags = ("-q", "--no-deps", "--no-binary", ":all:")
        command = ["pip", "download", *flags, wanted]
    subprocess.run(command, cwd=place, check=True)
    return max(place.iterdir(), key=lambda path: path.stat().st_mtime)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")


def copied(name: str, origin: Path) -> tuple[Path, list[Question]]:
    """Return the searched copy of a project, and the questions about it."""
    copy, kept = SOURCES / "searched" / name, SOURCES / "searched" / f"{name}.json"
    if not kept.exists():
        shutil.rmtree(copy, ignore_errors=True)
        ignored = shutil.ignore_patterns("*.pyc", ".git", "__pycache__", "*.so")
        shutil.copytree(origin, copy, ignore=ignored)
        kept.write_text(json.dumps(made(name, copy)))
    return copy, [(name, *rest) for _, *rest in json.loads(kept.read_text())]


def made(name: str, tree: Path) -> list[Question]:
    """Make the questions about a tree, and take their docstrings out of it."""
    files = sorted(path for path in tree.rglob("*") if path.suffix in CODE and path.is_file())
    chance = random.Random(name)
    found: dict[str, list[Question]] = defaultdict(list)
    sources = [path for path in files if not NOT_SOURCE.search(path.relative_to(tree).as_posix())]
    for path in chance.sample(sources, len(sources)):
        if len(found["docstring"]) < PER_KIND and (text := _docstring(path, chance)):
            found["docstring"].append((name, "docstring", text, str(path.relative_to(tree))))
    found["test"] = _tests(name, tree, files, sources)
    found["change"] = _changes(name, tree, sources)
    return [one for kind in found.values() for one in chance.sample(kind, min(len(kind), PER_KIND))]


def _docstring(path: Path, chance: random.Random) -> str | None:
    """Return a question from one comment of a file, and remove that comment."""
    text = path.read_text(errors="replace")
    spans = list(_python(text) if path.suffix == ".py" else _blocks(text))
    asked = [(without(first_sentence(said), name), said) for name, said in spans]
    asked = [(ask, said) for ask, said in asked if tells(ask)]
    if not asked:
        return None
    ask, said = chance.choice(asked)
    path.write_text(text.replace(said, "\n" * said.count("\n"), 1))
    return ask


def _python(text: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0]
            if ast.get_docstring(node) and isinstance(first, ast.Expr):
                said = ast.get_source_segment(text, first) or ""
                yield node.name, re.sub(r"^[rR]?[\"']+|[\"']+$", "", said)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    for block in BLOCK.finditer(text):
        if (name := NAME.search(block["code"])) and block.start() > 0:
            yield name[1] or name[2], block["comment"]


def _tests(name: str, tree: Path, files: list[Path], sources: list[Path]) -> list[Question]:
    """Return the names of tests, where the file's name says which file is tested."""
    by_name: dict[str, list[Path]] = defaultdict(list)
    for path in sources:
        by_name[path.stem.strip("_")].append(path)
    found: list[Question] = []
    for path in (path for path in files if path.name.startswith("test_")):
        tested, text = by_name.get(path.stem.removeprefix("test_"), []), path.read_text()
        if len(tested) == 1 and f"{tested[0].parent.name}.{tested[0].stem}" in text:
            for test in re.findall(r"def test_(\w+)", text):
                asked = without(test.replace("_", " "), path.stem)
                if len(set(TELLING.findall(asked)) - EMPTY) >= MIN_WORDS - 1:
                    found.append((name, "test", asked, str(tested[0].relative_to(tree))))
    return found


def _changes(name: str, tree: Path, sources: list[Path]) -> list[Question]:
    """Return lines of changelogs that name a thing which one file alone defines."""
    homes: dict[str, set[Path]] = defaultdict(set)
    for path in sources:
        for kind in re.findall(
            r"\b(?:def|class|function)\s+(\w{5,})", path.read_text(errors="replace")
        ):
            homes[kind].add(path)
    found: list[Question] = []
    logs = (p for p in tree.rglob("*") if p.suffix in (".md", ".rst", ".txt") and p.is_file())
    for log in (path for path in logs if CHANGES.search(str(path.relative_to(tree)))):
        for entry in re.split(r"\n\s*[-*] ", log.read_text(errors="replace")):
            entry = entry.split("\n\n")[0]
            marked = re.findall(r"[`.~](\w{5,})(?:\(\))?`", entry)
            places = {frozenset(homes[one]) for one in marked if len(homes.get(one, ())) == 1}
            # Only the name that leads to the answer is taken out, with its words.
            named = [one for one in marked if len(homes.get(one, ())) == 1]
            plain = re.sub(r":\w+:|`|~|\(\)|#\d+|<[^>]*>", " ", entry)
            text = without(" ".join(plain.split()), " ".join(named))
            if len(places) == 1 and tells(text):
                found.append((name, "change", text, str(next(iter(*places)).relative_to(tree))))
    return found


Contestant = Callable[[str], list[str]]
"""Returns the paths that it finds for a question, best first."""


def outrider(tree: Path) -> Contestant:
    """Return `find {about}` itself."""
    context = ToolContext(tree)
    return lambda text: [one["path"] for one in find(context, about=text, limit=5)["places"]]


def bm25(tree: Path, *, split: bool) -> Contestant:
    """Return `bm25s` over whole files, with names as they are or split into their words."""
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


def main() -> int:
    """Print the shares at 1, 3 and 5; the exit code says whether the aims were met."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--held-out", action="store_true", help="the other half of the questions")
    parser.add_argument("--former", metavar="COMMIT", help="beside an earlier embedded model")
    parser.add_argument("--only", nargs="+", default=[], metavar="PROJECT")
    parser.add_argument("--ours", action="store_true", help="without the others")
    parser.add_argument("--wrong", action="store_true", help="print what wasn't found")
    options = parser.parse_args()
    ranks: dict[tuple[str, str], list[int]] = defaultdict(list)
    spent: dict[str, float] = defaultdict(float)
    for name, origin in trees():
        if options.only and name not in options.only:
            continue
        tree, questions = copied(name, origin)
        contestants: dict[str, Contestant] = {"find": outrider(tree)}
        if not options.ours:
            contestants |= {
                "bm25s": bm25(tree, split=False),
                "bm25s, names split": bm25(tree, split=True),
            }
            contestants |= {"ripgrep": by_ripgrep(tree)}
        if options.former:
            contestants["former"] = former(tree, options.former)
        for _, kind, text, answer in questions[options.held_out :: 2]:
            for title, contestant in contestants.items():
                begun = time.perf_counter()
                found = contestant(text)
                spent[title] += time.perf_counter() - begun
                rank = found.index(answer) if answer in found else 99
                for group in ("all", kind, name):
                    ranks[title, group].append(rank)
                if options.wrong and title == "find" and rank > 2:
                    print(f"{name} {kind}: {text}\n   {answer}\n   {found[:3]}")
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
