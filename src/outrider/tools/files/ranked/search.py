"""One pass of ripgrep for all words of a question, and a look into the files that fit best.

Guarantees that nothing is shown of credential files, and nothing that masking hides. A word that
few files have is counted only where it can be seen; the number of files that have a common word is
rounded. So a guess at a random secret changes nothing in the answer; a hidden word that many files
have anyway can decide which of them are read.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from outrider.processes.threads import raise_if_stopped
from outrider.tools.context import ToolContext
from outrider.tools.files.masked_search import blocks_of
from outrider.tools.files.ranked import ranking
from outrider.tools.files.ranked.code import first_test
from outrider.tools.files.ranked.ranking import FileHits, Hit
from outrider.tools.files.ranked.words import Question, understood
from outrider.tools.files.ripgrep import searching
from outrider.workspaces.opening import OpenFolder
from outrider.workspaces.place import Place

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
MAX_SIZED = 1_000
MAX_READ = 40
MIN_SHARE = 0.3  # how much of the best score a place must have to be shown
RARE_FILES = 8
# How many lines of a file are taken; where that is too much for a large tree, the second number.
_LINES_OF_FILE = (300, 5)
_FILE = re.compile(rb"(?:\A|\n\n?)(?:\./)?([^\0]+?)\0\n?((?:\d+:[^\n]*(?:\n|\Z))+)")
_SCRIPT, _WRITTEN = re.compile(r"(d\.)?[cm]?[jt]sx?"), ("ts", "tsx")
_NAMES = re.compile(r"[A-Za-z0-9_$]+")

Files = dict[str, FileHits]


def ranked_places(context: ToolContext, about: str, place: Place, limit: int) -> dict[str, Any]:
    """Return the places that a question is about, best first, and what was looked for."""
    question = understood(about)
    data: dict[str, Any] = {"places": [], "words": question.terms, "files": 0, "unreadable": 0}
    data |= {"missing": [], "large": 0, "weak": False}
    if not question.terms and not question.names:
        return data
    with context.workspace.open_folder(place) as folder:
        listed, found, unreadable = _search(context, question, place, folder)
        chosen = _choose(context, question, found, len(listed), folder)
        seen = list(_read_visible(context, question, chosen, folder))
        frequency = ranking.frequencies(question, found.values())
        frequency = _visible(context, frequency, [file for file, _, _ in seen])
        weights = ranking.weighed(question, frequency, len(listed))
        best = [ranking.best_place(question, weights, *one) for one in seen]
        best = [one for one in best if one["score"]]
        sizes = () if best else (folder.size(name) or 0 for name in listed[:MAX_SIZED])
        large = sum(size > MAX_FILE_BYTES for size in sizes)
    ranked = _distinct(sorted(best, key=lambda one: (-one["score"], one["path"])))
    shown = [one for one in ranked if one["score"] >= MIN_SHARE * ranked[0]["score"]][:limit]
    for one in shown:
        file = context.workspace.below(place, one["path"])
        one["path"] = file.shown
        context.effects.file_read(file.path)
    asked = question.asked.items()
    missing = [word for word, terms in asked if not any(frequency[term] for term in terms)]
    data |= {"places": shown, "files": len(listed), "unreadable": unreadable}
    return data | {"missing": missing, "large": large, "weak": _is_weak(question, weights, shown)}


def _is_weak(question: Question, weights: ranking.Weights, shown: list[dict[str, Any]]) -> bool:
    """Return whether even the best place has less than half of what is asked for."""
    there = {word for one in shown[:1] for word in (*one["words"], *one["pathWords"])}
    pairs = list(zip(question.terms, weights, strict=True))
    has = sum(weight for term, weight in pairs if term in there)
    is_named = any(one["score"] >= ranking.MIN_NAMED for one in shown[:1])
    return bool(shown) and not is_named and has < sum(weights) / 2


def _search(
    context: ToolContext, question: Question, place: Place, folder: OpenFolder
) -> tuple[list[str], Files, int]:
    """Return all paths, the files with hits or a word in their path, and how many can't be read."""
    above = place.path.rstrip("/")
    with searching(context, ["--files", "--null"], folder) as listing:
        found, unreadable = _hits(context, question, folder)
        listed = listing.paths()
    looks = re.compile(question.path_pattern(), re.IGNORECASE)
    for path in listed:
        if path not in found and looks.search(path):
            found[path] = FileHits(path)
    for path in [p for p in found if context.workspace.is_credential(f"{above}/{p}")]:
        del found[path]
    return listed, found, unreadable


def _hits(context: ToolContext, question: Question, folder: OpenFolder) -> tuple[Files, int]:
    for most in _LINES_OF_FILE:
        arguments = [
            "--only-matching", "--heading", "--line-number", "--null", f"--max-count={most}",
            f"--max-filesize={MAX_FILE_BYTES}", f"--regexp={question.pattern()}",
        ]  # fmt: skip
        found, size, rest = Files(), 0, b""
        with searching(context, arguments, folder) as search:
            for chunk in search.chunks():
                size += len(chunk)
                if size > MAX_OUTPUT_BYTES and most != _LINES_OF_FILE[-1]:
                    break
                whole, cut, rest = (rest + chunk).rpartition(b"\n\n")
                _take(question, found, whole + cut)
            else:
                _take(question, found, rest)
                return found, search.unreadable()
    raise AssertionError("the last round takes all there is")


def _take(question: Question, found: Files, output: bytes) -> None:
    for name, rows in _FILE.findall(output):
        path = os.fsdecode(name)
        file = ranking.taken(question, path, rows)
        if file.counts:
            found[path] = file


def _choose(
    context: ToolContext, question: Question, found: Files, listed: int, folder: OpenFolder
) -> list[FileHits]:
    """Return the files worth reading: the best, and where masking is on all with a rare word."""
    frequency = ranking.frequencies(question, found.values())
    weights = ranking.weighed(question, frequency, listed)
    for file in found.values():
        ranking.score_file(question, weights, file)
    best = sorted(found.values(), key=lambda file: (-file.score, file.path))[:MAX_SIZED]
    for file in sorted(best, key=lambda file: file.path):
        raise_if_stopped(context.stop)
        file.size = folder.size(file.path) or 0
        ranking.score_file(question, weights, file)
    best.sort(key=lambda file: (-file.score, file.path))
    rare = {term for term, there in enumerate(frequency) if there <= RARE_FILES}
    also = [f for f in found.values() if not rare.isdisjoint(f.counts)] if context.mask else []
    chosen = {file.path: file for file in [*best[:MAX_READ], *also]}
    return [chosen[path] for path in sorted(chosen)]


def _read_visible(
    context: ToolContext, question: Question, files: Iterable[FileHits], folder: OpenFolder
) -> Iterator[tuple[FileHits, list[Hit], list[str]]]:
    """Yield files as they may be seen: their hits, and their lines."""
    mask = context.mask and replace(context.mask, only_secrets=True)
    for file in files:
        raise_if_stopped(context.stop)
        opened = folder.open(file.path)
        if opened is None:
            continue
        with opened:
            block = next(blocks_of(file.path, opened, binary=False), None)
        if block is None or block.is_too_long:
            continue
        hidden = block.hide_secrets(mask) if mask else {}
        lines = block.content.decode(errors="replace").split("\n")[:-1]
        for number, text in block.shown.items():
            lines[number - 1] = text
        asked = {n for n, line in enumerate(lines, 1) if question.is_asked_in(line)}
        hits = [hit for hit in file.hits() if hit[0] not in hidden and hit[0] not in asked]
        for number, line in hidden.items():
            hits += [(number, name) for name in _NAMES.findall(line.decode(errors="replace"))]
        tests = first_test(lines)
        if "test" not in question.kinds:
            hits = [hit for hit in hits if hit[0] < tests]
        seen = FileHits(file.path, size=file.size)
        for _, name in hits:
            seen.count(question, name)
        yield seen, sorted(hits), lines


def _visible(context: ToolContext, frequency: list[int], seen: Sequence[FileHits]) -> list[int]:
    """Return in how many files each term is, as far as that may be told."""
    if context.mask is None:
        return frequency
    return [
        sum(term in file.counts for file in seen)
        if there <= RARE_FILES
        else 1 << there.bit_length() - 1
        for term, there in enumerate(frequency)
    ]


def _distinct(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the places without those that say the same in a file of the same name."""
    # What is compiled says it in other words: of TypeScript and what was made of it, one is enough.
    said: dict[Any, dict[str, Any]] = {}
    for one in found:
        name, _, ending = one["path"].rpartition("/")[2].partition(".")
        texts = [line["text"] for line in one["lines"]]
        is_twin = one["definition"] and _SCRIPT.fullmatch(ending)
        key = (name, one["definition"]) if is_twin else (name, *texts)
        kept = said.setdefault(key, one)
        if is_twin and ending in _WRITTEN and not kept["path"].endswith(_WRITTEN):
            said[key] = one | {"score": kept["score"]}
    return list(said.values())
