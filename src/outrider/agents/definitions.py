"""An agent as its file defines it; whatever the file holds, reading it never raises."""

import os
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Literal

from outrider.agents import frontmatter
from outrider.agents.frontmatter import Entry
from outrider.protocol import catalogue

AGENT_FIELDS: tuple[tuple[str, bool, str], ...] = (
    ("name", True, "What the agent is called: letters, digits, `.`, `_` and `-`, at most 64."),
    ("description", False, "When to delegate to it, for people and for the host's model."),
    ("readonly", False, "`true` or `1`: it never gets a tool that writes. Anything else is false."),
    (
        "tools",
        False,
        "Names as `a, b`, `[a, b]` or `- a` lines. None listed: read, grep, find, ls.",
    ),
    ("model", False, "Its model, as `provider:name`. `inherit` means none of its own."),
    ("disabled", False, "`true` or `1`: it is known but can't be delegated to."),
    ("output_schema", False, "Path of a JSON Schema for its answers, relative to the file."),
)
DEFAULT_ROLE = (
    "You are a focused assistant. Do the delegated task and nothing else, and report what you "
    "found, on what evidence, and what you are unsure of."
)
_FIELD_NAMES = tuple(name for name, _, _ in AGENT_FIELDS)
# Misspelt, these still bind: a typo must not make an agent freer than its author meant.
_SWITCHES = ("readonly", "disabled")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOOL = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_MODEL = re.compile(r"[!-~]{1,200}")
_CLAUDE_MODELS = ("sonnet", "opus", "haiku")
_MAX_TOOLS = 64
_MAX_DIAGNOSTICS = 20


class Source(StrEnum):
    """Who defined an agent; a later one wins over an earlier one."""

    BUILTIN = "builtin"
    USER = "user"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What is wrong with an agent file. An error makes the file unusable, a warning doesn't."""

    path: str
    line: int | None
    message: str
    severity: Literal["error", "warning"]

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.severity}: {self.message}"


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """One agent. `tools` is None where the file lists none, and empty where it lists nothing."""

    name: str
    description: str
    system_prompt: str
    readonly: bool
    tools: tuple[str, ...] | None
    model: str | None
    disabled: bool
    output_schema: str | None
    source: Source
    path: str


def one_line(text: str, limit: int) -> str:
    """Return `text` as one printable line of at most `limit` characters, safe to show."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def parse_definition(
    text: str, path: str, source: Source
) -> tuple[AgentDefinition | None, list[Diagnostic]]:
    """Return the agent that `text` defines, or None, and everything that is wrong with it."""
    notes = _Notes(path)
    if "\0" in text:
        notes.error(
            text[: text.index("\0")].count("\n") + 1, "it holds a NUL byte: not a text file"
        )
        return None, notes.diagnostics
    # Half of a surrogate pair can't be written as UTF-8, so no result could carry it.
    parsed = frontmatter.parse(text.encode("utf-8", "replace").decode())
    for fault in parsed.faults:
        (notes.error if fault.fatal else notes.warn)(fault.line, fault.message)
    definition = None
    if not any(fault.fatal for fault in parsed.faults):
        definition = _definition(_known_entries(parsed.entries, notes), parsed.body, source, notes)
    return definition, notes.bounded()


@dataclass(slots=True)
class _Notes:
    """The diagnostics of one file, while it is read."""

    path: str
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def error(self, line: int | None, message: str) -> None:
        self.diagnostics.append(Diagnostic(self.path, line, message, "error"))

    def warn(self, line: int | None, message: str) -> None:
        self.diagnostics.append(Diagnostic(self.path, line, message, "warning"))

    def bounded(self) -> list[Diagnostic]:
        self.diagnostics.sort(key=lambda note: (note.severity, note.line or 0))
        more = len(self.diagnostics) - _MAX_DIAGNOSTICS
        if more > 0:
            del self.diagnostics[_MAX_DIAGNOSTICS:]
            self.warn(None, f"and {more} more warnings")
        return self.diagnostics


def _known_entries(entries: tuple[Entry, ...], notes: _Notes) -> dict[str, Entry]:
    known: dict[str, Entry] = {}
    for entry in entries:
        name = entry.key if entry.key in _FIELD_NAMES else _meant(entry, notes)
        if name in known:
            notes.warn(entry.line, f"{name} is given twice; line {known[name].line} counts")
        elif name:
            known[name] = entry
    return known


def _meant(entry: Entry, notes: _Notes) -> str | None:
    near = get_close_matches(entry.key.lower(), _FIELD_NAMES, 1, 0.75)
    shown = entry.key[:60]
    if near and near[0] in _SWITCHES:
        notes.warn(entry.line, f"unknown key {shown}; taken as {near[0]}")
        return near[0]
    notes.warn(entry.line, f"unknown key {shown}, ignored" + _suggestion(near))
    return None


def _suggestion(near: list[str]) -> str:
    return f"; did you mean {near[0]}?" if near else ""


def _definition(
    entries: dict[str, Entry], body: str, source: Source, notes: _Notes
) -> AgentDefinition | None:
    name = _name(entries.get("name"), notes)
    described = entries.get("description")
    description = _readable(described.text) if described else ""
    switches = {switch: _switch(entries.get(switch), notes) for switch in _SWITCHES}
    tools = _tools(entries.get("tools"), notes)
    model = _model(entries.get("model"), notes)
    schema = _schema_path(entries.get("output_schema"), notes)
    if name is None:
        return None
    return AgentDefinition(
        name=name,
        description=description,
        system_prompt=body or description or DEFAULT_ROLE,
        readonly=switches["readonly"],
        tools=tools,
        model=model,
        disabled=switches["disabled"],
        output_schema=schema,
        source=source,
        path=notes.path,
    )


def _name(entry: Entry | None, notes: _Notes) -> str | None:
    if entry is None or not entry.word:
        notes.error(entry.line if entry else 1, "it has no name: add a line `name: …`")
        return None
    if not _NAME.fullmatch(entry.word):
        message = "is no name: use letters, digits, `.`, `_` and `-`, at most 64"
        notes.error(entry.line, f"{entry.word[:64]!r} {message}")
        return None
    return entry.word


def _readable(text: str) -> str:
    """Return `text` without the characters that steer a terminal or hide words."""
    return "".join(char for char in text if char.isprintable() or char in "\n\t").strip()


def _switch(entry: Entry | None, notes: _Notes) -> bool:
    word = entry.word.casefold() if entry else ""
    if entry and word not in ("", "true", "1", "false", "0", "no", "off"):
        notes.warn(entry.line, f"{entry.key}: {word[:60]!r} counts as false; write true or false")
    return word in ("true", "1")


def _tools(entry: Entry | None, notes: _Notes) -> tuple[str, ...] | None:
    if entry is None:
        return None
    names = entry.names
    if not names and not entry.word:
        notes.warn(entry.line, "tools is empty, so the agent gets none; write [] if that is meant")
    if len(names) > _MAX_TOOLS:
        notes.warn(entry.line, f"{len(names)} tools listed; only the first {_MAX_TOOLS} count")
    tools = [_tool(name, entry.line, notes) for name in names[:_MAX_TOOLS]]
    return tuple(dict.fromkeys(filter(None, tools)))


def _tool(written: str, line: int, notes: _Notes) -> str | None:
    name, shown = catalogue.canonical(written), repr(written[:60])
    if name in catalogue.NEVER_GIVEN:
        notes.warn(line, f"tool {shown} is never given to an agent; left out")
    elif not _TOOL.fullmatch(written):
        rule = (
            "a rule in parentheses can't be enforced" if "(" in written else "separate with commas"
        )
        notes.warn(line, f"tool {shown} is not a plain name ({rule}); left out")
        return None
    elif not catalogue.is_own(name):
        near = catalogue.nearest(name)
        hint = _suggestion([near]) if near else "; left out unless a module of your own brings it"
        notes.warn(line, f"unknown tool {shown}{hint}")
    return name


def _model(entry: Entry | None, notes: _Notes) -> str | None:
    word = entry.word if entry else ""
    if entry is None or word.casefold() in ("", "inherit"):
        return None
    if word.casefold() in _CLAUDE_MODELS:
        notes.warn(entry.line, f"model {word} names no provider, ignored; write `provider:name`")
        return None
    if not _MODEL.fullmatch(word):
        notes.warn(entry.line, f"{word[:60]!r} is no model, ignored; write `provider:name`")
        return None
    return word


def _schema_path(entry: Entry | None, notes: _Notes) -> str | None:
    if entry is None or not entry.word:
        return None
    return os.path.normpath(os.path.join(os.path.dirname(notes.path), entry.word))
