"""Questions about foreign code, each with the file that answers: for measuring ranked search.

They come from docstrings, changelog lines and test names of source packages, which are downloaded
once into `.envs/sources`. The words of the answer's own name are taken out of a question, and what
became a question is taken out of the searched copy, wherever it stands there.
"""

import ast
import json
import random
import re
import shutil
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.environments import ENVS

SOURCES = ENVS / "sources"
PYPI = ("django==5.2.8", "celery==5.5.3", "scrapy==2.13.3", "zstandard==0.25.0", "libsass==0.23.0")
NPM = ("rxjs@7.8.2", "three@0.181.0", "react-native@0.82.1")
WRITTEN: dict[str, list[tuple[str, list[str]]]] = json.loads(
    Path(__file__).with_name("find_written.json").read_text("utf-8")
)
INSTALLED = ("prompt_toolkit", "pydantic_ai")
PER_KIND = 40
MIN_WORDS = 5
MAX_WORDS = 40
MAX_FILE_BYTES = 4_000_000
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
DEFINED = re.compile(r"\b(?:def|class|function)\s+(\w{5,})")
# Only a name of several words leads to an answer; one word may mean anything.
COMPOUND = re.compile(r"[A-Za-z0-9]_[A-Za-z0-9]|[a-z0-9][A-Z]")
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


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, which file answers, and the text that has to go from the searched copy."""

    kind: str
    text: str
    answer: str
    said: str = ""

    def is_answer(self, path: str) -> bool:
        """Return whether a path is, or ends with, one that answers."""
        return any(f"/{path}".endswith(f"/{one}") for one in self.answer.split(" | "))


def words(text: str) -> list[str]:
    """Return the words of a text or name, in lower case."""
    return [w.lower() for w in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", text)]


def tells(text: str, least: int = MIN_WORDS) -> bool:
    """Return whether a text has enough words to be a question, and isn't too long for one."""
    telling = {word.lower() for word in TELLING.findall(text)} - EMPTY
    return len(telling) >= least and len(text.split()) <= MAX_WORDS


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
    for wanted in (*PYPI, *NPM):
        yield re.split("[=@]", wanted)[0], unpacked(wanted)
    for name in INSTALLED:
        spec = find_spec(name)
        if spec and spec.origin:
            yield name, Path(spec.origin).parent


def written() -> Iterator[tuple[str, Path, list[Question]]]:
    """Yield the projects of the questions written by hand, their sources and the questions."""
    for wanted, rows in WRITTEN.items():
        asked = [
            Question("English" if text.isascii() else "Chinese", text, " | ".join(right))
            for text, right in rows
        ]
        yield re.split("[=@]", wanted)[0], unpacked(wanted), asked


def unpacked(wanted: str) -> Path:
    """Return the sources of a package, downloaded once: `name==1` of PyPI, `name@1` of npm, else
    the Debian package of that name."""
    folder, archives = SOURCES / re.split("[=@]", wanted)[0], SOURCES / "archives"
    if folder.exists():
        return folder
    archives.mkdir(parents=True, exist_ok=True)
    archive = _archive(archives, wanted)
    if archive is None:
        print(f"Downloading {wanted} (once) …", file=sys.stderr)
        command = ["npm", "pack", "--silent", wanted]
        if "==" in wanted:
            # The environment of `dev` has no pip of its own.
            python = getattr(sys, "_base_executable", sys.executable)
            pip = (python, "-m", "pip", "download", "-q", "--no-deps")
            command = [*pip, "--no-binary", ":all:", wanted]
        elif "@" not in wanted:
            command = ["apt-get", "download", wanted]
        subprocess.run(command, cwd=archives, check=True)
        archive = _archive(archives, wanted)
        assert archive is not None
    if archive.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
    return folder


def _archive(archives: Path, wanted: str) -> Path | None:
    name, *version = re.split("=+|@", wanted)
    looks = f"{name.replace('.', '?')}-{version[0]}*" if version else f"{name}_*.deb"
    return next(iter(sorted(archives.glob(looks))), None)


def copied(name: str, origin: Path) -> tuple[Path, list[Question]]:
    """Return the searched copy of a project, and the questions about it."""
    copy, kept = SOURCES / "searched" / name, SOURCES / "searched" / f"{name}.json"
    if not kept.exists():
        shutil.rmtree(copy, ignore_errors=True)
        ignored = shutil.ignore_patterns("*.pyc", ".git", "__pycache__", "*.so")
        shutil.copytree(origin, copy, ignore=ignored)
        made = _Maker(name, copy).made()
        kept.write_text(json.dumps([asdict(question) for question in made], indent=1))
    return copy, [Question(**one) for one in json.loads(kept.read_text())]


class _Maker:
    """Makes the questions about a tree, and takes what they say out of it."""

    def __init__(self, name: str, tree: Path) -> None:
        self._tree = tree
        self._chance = random.Random(name)
        paths = sorted(path for path in tree.rglob("*") if path.is_file())
        read = {path: path.read_bytes() for path in paths if path.stat().st_size < MAX_FILE_BYTES}
        self._texts = {
            path.relative_to(tree).as_posix(): text.decode(errors="surrogateescape")
            for path, text in read.items()
            if b"\0" not in text
        }
        self._sources = [
            path for path in self._texts if path.endswith(CODE) and not NOT_SOURCE.search(path)
        ]

    def made(self) -> list[Question]:
        """Return the questions; the tree no longer has their texts afterwards."""
        asked: dict[str, Question] = {}
        for kind in (self._docstrings(), self._tests(), self._changes()):
            found = list(kind)
            kept = 0
            for question in self._chance.sample(found, len(found)):
                if kept < PER_KIND and question.text not in asked and self._take_out(question):
                    asked[question.text] = question
                    kept += 1
        return list(asked.values())

    def _docstrings(self) -> Iterator[Question]:
        """Yield one question from a docstring or comment of each source file."""
        for path in self._sources:
            text = self._texts[path]
            spans = _python(text) if path.endswith(".py") else _blocks(text)
            asked = [(without(first_sentence(said), name), said) for name, said in spans]
            asked = [one for one in asked if tells(one[0])]
            if asked:
                text, said = self._chance.choice(asked)
                yield Question("docstring", text, path, said)

    def _tests(self) -> Iterator[Question]:
        """Yield the names of tests, where the file's name says which file is tested."""
        by_name: dict[str, list[str]] = defaultdict(list)
        for path in self._sources:
            by_name[Path(path).stem.strip("_")].append(path)
        for path, text in self._texts.items():
            name = Path(path).stem
            tested = by_name.get(name.removeprefix("test_"), [])
            if not name.startswith("test_") or not path.endswith(".py") or len(tested) != 1:
                continue
            if ".".join(Path(tested[0]).with_suffix("").parts[-2:]) not in text:
                continue
            for test in re.findall(r"def (test_\w+)", text):
                asked = without(test.removeprefix("test_").replace("_", " "), name)
                if tells(asked, MIN_WORDS - 1):
                    yield Question("test", asked, tested[0], test)

    def _changes(self) -> Iterator[Question]:
        """Yield lines of changelogs that name a thing which one file alone defines."""
        homes: dict[str, set[str]] = defaultdict(set)
        for path in self._sources:
            for defined in DEFINED.findall(self._texts[path]):
                homes[defined].add(path)
        for log, text in self._texts.items():
            if not CHANGES.search(log) or not log.endswith((".md", ".rst", ".txt")):
                continue
            for entry in re.split(r"\n\s*[-*] ", text):
                entry = entry.split("\n\n")[0]
                marked = re.findall(r"[`.~](\w{5,})(?:\(\))?`", entry)
                named = [one for one in marked if len(homes.get(one, ())) == 1]
                places = {path for one in named for path in homes[one]}
                plain = re.sub(r":\w+:|`|~|\(\)|#\d+|<[^>]*>", " ", entry)
                # Only the name that leads to the answer is taken out, with its words.
                asked = without(" ".join(plain.split()), " ".join(named))
                if len(places) == 1 and any(map(COMPOUND.search, named)) and tells(asked):
                    yield Question("change", asked, *places, entry)

    def _take_out(self, question: Question) -> bool:
        """Take a question's text out of the tree; False where several source files have it."""
        begins = max(question.said.split("\n"), key=len).strip()
        holding = [path for path, text in self._texts.items() if begins in text]
        if question.kind == "docstring" and len(set(holding).intersection(self._sources)) != 1:
            return False
        looks = re.compile(r"\s+".join(map(re.escape, question.said.split())))
        for path in holding:
            text = looks.sub(lambda found: "\n" * found[0].count("\n"), self._texts[path])
            self._texts[path] = text
            (self._tree / path).write_bytes(text.encode(errors="surrogateescape"))
        return True


def _python(text: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    lines = text.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0]
            if ast.get_docstring(node) and isinstance(first, ast.Expr):
                said = "".join(lines[first.lineno - 1 : first.end_lineno]).strip()
                yield node.name, re.sub(r"^[rR]?[\"']+|[\"']+$", "", said)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    for block in BLOCK.finditer(text):
        if (name := NAME.search(block["code"])) and block.start() > 0:
            yield name[1] or name[2], block["comment"]
