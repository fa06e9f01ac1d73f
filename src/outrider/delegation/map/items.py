"""The items of a map: read one at a time, known by an id or their content, made into tasks."""

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from outrider.delegation.request import MAX_TASK_BYTES, invalid
from outrider.protocol import jsonl
from outrider.protocol.data import frozen, json_kind
from outrider.protocol.text import most_alike

MAX_ID = 200
_MARKS = re.compile(r"\{\{|\}\}|\{(\w[\w .-]*)\}|[{}]")
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
        name = mark[1]
        if name is not None and name not in fields:
            near = "".join(f" Did you mean {{{one}}}?" for one in most_alike(name, fields)[:1])
            raise ValueError(f"The task needs {{{name}}}. The item has {', '.join(fields)}.{near}")
        found = mark[0][0] if name is None else fields[name]
        return found if isinstance(found, str) else jsonl.encode(found).decode()

    return _MARKS.sub(value, template)


def items_of(given: Iterable[Given], template: str | None) -> Iterator[Item | None]:
    """Return each item with a key of its own; None where there are no more for now."""
    return _items(given, check_template("{task}" if template is None else template))


def _items(given: Iterable[Given], template: str) -> Iterator[Item | None]:
    seen: Counter[str] = Counter()
    for where, fields in given:
        if fields is None:
            yield None
            continue
        name = fields.get("id") if isinstance(fields, Mapping) else None
        key = jsonl.without_surrogates(str(name)[:MAX_ID]) if isinstance(name, str | int) else ""
        is_named = bool(key)
        key = key or _hashed(fields if isinstance(fields, Mapping) else where)
        seen[key] += 1
        if seen[key] > 1 and not is_named:
            key = f"{key}-{seen[key]}"
        try:
            if is_named and seen[key] > 1:
                raise ValueError(f"The id {key!r} is in use by an earlier item.")
            yield _item(key, template, fields)
        except ValueError as error:
            yield Item(key, problem=f"{where}: {error}")


def _hashed(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _item(key: str, template: str, fields: Fields | str) -> Item:
    """Return the item with these fields; raises `ValueError` where it can't be one."""
    if isinstance(fields, str):
        raise ValueError(fields)  # what is wrong with it, in words
    if isinstance(name := fields.get("id"), bool) or not isinstance(name, str | int | None):
        raise ValueError(f"id must be a string or a number, not {json_kind(name)}.")
    texts = {name: fields.get(name) or None for name in ("agent", "model", "cwd")}
    for name, value in texts.items():
        if not isinstance(value, str | None):
            raise ValueError(f"{name} must be a string, not {json_kind(value)}.")
    schema = None if fields.get("schema") == "" else fields.get("schema")
    try:
        schema = json.loads(schema) if isinstance(schema, str) else schema
    except (ValueError, RecursionError):
        raise ValueError("schema isn't JSON.") from None
    return Item(key, filled(template, fields), schema=schema, **texts)


def read_lines(file: BinaryIO, name: str) -> Iterator[Given]:
    """Yield the items of a file with one a line: a JSON object, or the task itself."""
    for number, line in enumerate(_lines(file), 1):
        where = f"{name}, line {number}"
        if line is None or isinstance(line, str):
            yield where, line
        elif line.startswith(b"{"):
            try:
                yield where, jsonl.decode(line)
            except (ValueError, RecursionError) as error:
                yield where, f"It isn't JSON: {error}."
        elif line:
            yield where, {"task": line.decode(errors="surrogateescape")}


def read_csv(file: BinaryIO, name: str) -> Iterator[Given]:
    """Yield the items of a CSV file, whose first row names the fields."""
    csv.field_size_limit(MAX_TASK_BYTES)
    lines = (one.decode(errors="surrogateescape") for one in _lines(file) if isinstance(one, bytes))
    rows = csv.reader(f"{line}\n" for line in lines)
    header: list[str] = []
    while True:
        where = f"{name}, row {rows.line_num + 1}"
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield where, f"It isn't CSV: {error}."
            continue
        if header and row and len(row) != len(header):
            yield where, f"It has {len(row)} cells, and the first row has {len(header)}."
        elif header and row:
            yield where, dict(zip(header, row, strict=True))
        header = header or [cell.strip() for cell in row]


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
            yield (line.removeprefix(b"\xef\xbb\xbf") if is_first else line).strip()
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
