"""The items of a map: read one at a time, known by an id or their content, made into tasks."""

import asyncio
import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, BinaryIO

from outrider.delegation.request import MAX_TASK_BYTES, invalid
from outrider.processes.threads import in_thread
from outrider.protocol import jsonl
from outrider.protocol.data import frozen, json_kind
from outrider.protocol.text import most_alike

_MARKS = re.compile(r"\{\{|\}\}|\{(\w[\w .-]*)\}|[{}]")
_END: Any = object()
Fields = Mapping[str, Any]
Given = tuple[str, Fields | str | None]
"""Where an item stands, and its fields, or what is wrong with it; None where no more is there yet.
"""


@frozen
class Item:
    """One item: its key, and what is asked for, or why nothing can be."""

    key: str
    task: str = ""
    agent: str | None = None
    model: str | None = None
    cwd: str | None = None
    schema: Any = None
    problem: str | None = None


def check_template(text: str) -> str:
    """Return a task with `{field}` in it, and `{{` for a brace; raises `Refusal` for another."""
    if lone := [one[0] for one in _MARKS.finditer(text) if one[0] in "{}"]:
        advice = "A field is written {name}; write {{ and }} for braces."
        raise invalid(f"The task {text!r} has a lone {lone[0]!r}. {advice}")
    return text


def filled(template: str, fields: Fields) -> str:
    """Return the task for an item; raises `ValueError` where it lacks a field."""

    def value(mark: "re.Match[str]") -> str:
        found = mark[0][0] if mark[1] is None else _field(fields, mark[1])
        return found if isinstance(found, str) else jsonl.encode(found).decode()

    return _MARKS.sub(value, template)


def _field(fields: Fields, name: str) -> Any:
    """Return a field, or with `outer.inner` one inside of another; raises `ValueError`."""
    if name in fields:
        return fields[name]
    outer, _, inner = name.partition(".")
    if inner and isinstance(fields.get(outer), Mapping):
        return _field(fields[outer], inner)
    near = "".join(f" Did you mean {{{one}}}?" for one in most_alike(name, fields)[:1])
    raise ValueError(f"The task needs {{{name}}}, and there is only {', '.join(fields)}.{near}")


def items_of(given: Iterable[Given], template: str | None) -> Iterator[Item | None]:
    """Return each item with a key of its own; None where there are no more for now."""
    seen, template = Counter[str](), template and check_template(template)
    return (None if one is None else _item(where, one, template, seen) for where, one in given)


def pulled(items: Iterator[Item | None], wake: Callable[[], object]) -> Iterator[Item | None]:
    """Yield items that may be long in coming: None while the next isn't there, then `wake()`."""
    while True:
        pulling = asyncio.ensure_future(in_thread(next)(items, _END))
        pulling.add_done_callback(lambda _: wake())
        while not pulling.done():
            yield None
        if (item := pulling.result()) is _END:
            return
        if item is not None:
            yield item


def _item(where: str, fields: Fields | str, template: str | None, seen: Counter[str]) -> Item:
    """Return the item with these fields, or with what is wrong with them."""
    key = where
    try:
        if isinstance(fields, str):
            raise ValueError(fields)
        name = fields.get("id")
        if isinstance(name, bool) or not isinstance(name, str | int | float | None):
            raise ValueError(f"id must be a string or a number, not {json_kind(name)}.")
        key = _key(jsonl.without_surrogates("" if name is None else str(name)), fields, seen)
        texts = {name: fields.get(name) or None for name in ("agent", "model", "cwd")}
        if template is None and "task" not in fields:
            advice = "Add one, or make it of its fields: --task 'Review {path}'."
            raise ValueError(f"There is no task, only {', '.join(fields) or '{}'}. {advice}")
        task = fields["task"] if template is None else filled(template, fields)
        for name, value in {**texts, "task": task}.items():
            if not isinstance(value, str) and (value is not None or name == "task"):
                raise ValueError(f"{name} must be a string, not {json_kind(value)}.")
        return Item(key, task, schema=_schema(fields.get("schema")), **texts)
    except ValueError as error:
        return Item(key, problem=f"{where}: {error}")
    except RecursionError:
        return Item(key, problem=f"{where}: It is nested too deeply.")


def _key(own: str, fields: Fields, seen: Counter[str]) -> str:
    """Return what no other item is known by: its own id, or a hash of its content."""
    if own in seen:
        raise ValueError(f"The id {own!r} is in use by an earlier item.")
    key = first = own or _hashed(fields)
    while key in seen:
        seen[first] += 1
        key = f"{first}-{seen[first]}"
    seen[key] = 1
    return key


def _hashed(fields: Fields) -> str:
    text = json.dumps(fields, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _schema(given: Any) -> Any:
    """Return a schema, which is JSON text in a cell of CSV."""
    try:
        return json.loads(given or "null") if isinstance(given, str) else given
    except (ValueError, RecursionError):
        raise ValueError("schema isn't JSON.") from None


def read_lines(file: BinaryIO, name: str) -> Iterator[Given]:
    """Yield the items of a file with one a line: a JSON object, or the task itself."""
    number = 0
    for line in _lines(file):
        number += line is not None
        where = f"{name}, line {number}"
        if line is None or isinstance(line, str):
            yield where, line
        elif number == 1 and re.fullmatch(rb"\s*([{[]\s*|\[\s*\{.*)", line):
            advice = "Write each item on a line of its own, as `jq -c '.[]'` does with an array."
            raise invalid(f"{name} is one JSON value. {advice}")
        elif (line := line.strip()).startswith(b"{"):
            try:
                yield where, jsonl.decode(line)
            except (ValueError, RecursionError) as error:
                yield where, f"It isn't JSON: {error}."
        elif line:
            yield where, {"task": line.decode(errors="surrogateescape")}


def read_csv(file: BinaryIO, name: str) -> Iterator[Given]:
    """Yield the items of a CSV file, whose first row names the fields."""
    csv.field_size_limit(MAX_TASK_BYTES)
    lines, number, header = _lines(file), 0, list[str]()

    def texts(first: bytes | str) -> Iterator[str]:
        nonlocal number
        for line in chain([first], lines):
            number += line is not None
            if isinstance(line, str):
                raise csv.Error(line)
            if line is not None:
                yield f"{line.decode(errors='surrogateescape')}\n"

    for line in lines:
        where = f"{name}, row {number + 1}"
        if line is None:
            yield where, None
            continue
        try:
            row = next(csv.reader(texts(line)))
        except csv.Error as error:
            yield where, f"It isn't CSV: {str(error).rstrip('.')}."
            continue
        if header and row and len(row) != len(header):
            yield where, f"It has {len(row)} cells, and the first row has {len(header)}."
        elif header and row:
            yield where, dict(zip(header, row, strict=True))
        if not header and len(set(header := [cell.strip() for cell in row])) < len(header):
            raise invalid(f"{name} has two columns of one name in {', '.join(header)}. Rename one.")


def _lines(file: BinaryIO) -> Iterator[bytes | str | None]:
    """Yield lines without their ends; what is wrong with one; None at the end, before a last look.

    A file may still grow: a last line without an end is looked at again before it counts.
    """
    rest, is_first, at_end = b"", True, False
    while True:
        line = rest + file.readline(MAX_TASK_BYTES + 1 - len(rest))
        if len(line) > MAX_TASK_BYTES and not line.endswith(b"\n"):
            while (skipped := file.readline(1 << 16)) and not skipped.endswith(b"\n"):
                pass
            yield f"It is longer than {MAX_TASK_BYTES:,} bytes."
            rest = b""
        elif line.endswith(b"\n") or (at_end and line and line == rest):
            yield (line.removeprefix(b"\xef\xbb\xbf") if is_first else line).rstrip(b"\r\n")
            rest, is_first, at_end = b"", False, False
        elif at_end and line == rest:
            return
        else:
            rest, at_end = line, True
            yield None


def given_values(values: Iterable[Any]) -> Iterator[Given]:
    """Yield items that a program has: texts, or mappings of fields."""
    for number, value in enumerate(values, 1):
        fault = f"An item is a text or a mapping of fields, not {json_kind(value)}."
        fields = {"task": value} if isinstance(value, str) else value
        yield f"item {number}", fields if isinstance(fields, Mapping) else fault
