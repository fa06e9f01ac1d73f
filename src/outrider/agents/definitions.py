"""An agent as its file defines it; no content of a file makes reading it raise."""

import os
import re
import unicodedata
from collections.abc import Iterable
from enum import StrEnum

from outrider.agents.frontmatter import Diagnostic, Field, Notes, parse_frontmatter
from outrider.protocol import tool_catalogue
from outrider.protocol.data import frozen
from outrider.protocol.text import is_visible, most_alike

AGENT_FIELDS: tuple[tuple[str, bool, str], ...] = (
    ("name", True, "Name: up to 64 letters (of any script), digits, `.`, `_` and `-`."),
    ("description", False, "When to delegate to it. People and the host's model read this."),
    ("readonly", False, "`true`: gets no tool that writes. What can't be read counts as true."),
    ("tools", False, "Names as `a, b`, `[a, b]` or `- a` lines. Default: read, grep, find, ls."),
    ("model", False, "`provider:name`, or as other hosts write it. `inherit` is the same as none."),
    ("disabled", False, "`true`: listed, but can't be delegated to."),
    ("output_schema", False, "Path to a JSON Schema for its answers, relative to the file."),
    ("isolation", False, "Where it writes, as `subagents.isolation`; a repository's not `none`."),
    ("check", False, "A command that has to pass before it is done; a repository's needs trust."),
    ("network", False, "What its commands reach: `none` or `host`; a repository's not `host`."),
    ("runtime", False, "What runs it: `native` or `pi`. A repository's agent can't choose."),
)
CODER = "coder"  # the built-in agent that changes files, and runs only where that is allowed
NATIVE, PI = RUNTIMES = ("native", "pi")
DEFAULT_ROLE = (
    "You are a focused assistant. Do the delegated task and nothing else, and report what you "
    "found, on what evidence, and what you are unsure of."
)
_FIELD_NAMES = tuple(name for name, _, _ in AGENT_FIELDS)
# Misspelt, these still count: a typo must not give an agent more than its author meant.
_SWITCHES = ("readonly", "disabled")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("", "false", "0", "no", "off")
_MAX_NAME = 64
_TOOL = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_MODEL = re.compile(r"[!-~]{1,200}")
_MAX_TOOLS = 64


class Source(StrEnum):
    """Who defined an agent; a later one wins over an earlier one."""

    BUILTIN = "builtin"
    USER = "user"
    PROJECT = "project"


@frozen
class AgentDefinition:
    """One agent. `tools` is None without a `tools` line, and empty with an empty one."""

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
    runtime: str = NATIVE
    network: str | None = None
    isolation: str | None = None
    check: str | None = None


def parse_definition(
    text: str, path: str, source: Source
) -> tuple[AgentDefinition | None, list[Diagnostic]]:
    """Return the agent that `text` defines, or None, and everything that is wrong with it."""
    notes = Notes(path)
    definition = None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        notes.error(line, "contains a NUL byte: not a text file")
    # Half of a surrogate pair can't be written as UTF-8, so no result could contain it.
    elif parsed := parse_frontmatter(text.encode("utf-8", "replace").decode(), notes):
        definition = _definition(_known(parsed[0], notes), parsed[1], source, notes)
    return definition, notes.bounded()


def _known(fields: Iterable[Field], notes: Notes) -> dict[str, Field]:
    known: dict[str, Field] = {}
    for field in fields:
        name = field.key
        if name not in _FIELD_NAMES:
            near = most_alike(name.lower(), _FIELD_NAMES, 0.75)
            is_switch = bool(near) and near[0] in _SWITCHES
            hint = f"; taken as {near[0]}" if is_switch else f", ignored{_suggestion(near)}"
            notes.warn(field.line, f"unknown key {name[:60]}{hint}", concerns_run=is_switch)
            name = near[0] if is_switch else None
        if name in known:
            notes.warn(field.line, f"duplicate key {name}; line {known[name].line} is used")
        elif name:
            known[name] = field
    return known


def _suggestion(near: list[str]) -> str:
    return f"; did you mean {near[0]}?" if near else ""


def _definition(
    fields: dict[str, Field], body: str, source: Source, notes: Notes
) -> AgentDefinition | None:
    # A key that isn't there counts like one without a value, but for `tools`.
    given = {name: fields.get(name, Field(name, 1)) for name in _FIELD_NAMES}
    # Without the characters that control a terminal or hide words.
    readable = (one for one in given["description"].text if one.isprintable() or one in "\n\t")
    description, schema = "".join(readable).strip(), given["output_schema"].word
    name = _name(given["name"], notes)
    definition = AgentDefinition(
        name=name or "",
        description=description,
        system_prompt=body or description or DEFAULT_ROLE,
        readonly=_switch(given["readonly"], notes),
        tools=_tools(fields["tools"], notes) if "tools" in fields else None,
        model=_model(given["model"], notes),
        disabled=_switch(given["disabled"], notes),
        output_schema=os.path.normpath(os.path.join(notes.path, "..", schema)) if schema else None,
        source=source,
        path=notes.path,
        runtime=_runtime(given["runtime"], source, notes),
        network=_choice(given["network"], "none", "host", source, notes),
        isolation=_choice(given["isolation"], "auto", "none", source, notes),
        check=given["check"].text or None,
    )
    return definition if name else None


def normal_name(name: str) -> str:
    """Return an agent's name in the one form (NFC) in which names are compared."""
    return unicodedata.normalize("NFC", name.strip())


def is_agent_name(name: str) -> bool:
    """Whether an agent can have this name: letters of any script, digits, `.`, `_` and `-`."""
    kinds = {unicodedata.category(char)[0] for char in name if char not in "._-"}
    flat = unicodedata.normalize("NFKC", name)
    return (
        0 < len(name) <= _MAX_NAME
        and name[0].isalnum()
        and kinds <= {"L", "M", "N"}
        and all(map(is_visible, name))
        # Wide or mathematical letters would pass for those of another name.
        and sum(map(str.isascii, flat)) == sum(map(str.isascii, name))
    )


def name_doubt(name: str) -> str:
    """Return why a name may be taken for another one; nothing where it can't."""
    if name.isascii():
        return ""
    # Only letters with case look alike across scripts, as those of Latin, Greek and Cyrillic do.
    cased = (char for char in name if char.lower() != char.upper())
    scripts = {unicodedata.name(char, "?").split()[0].capitalize() for char in cased}
    mixed = f"{' and '.join(sorted(scripts))} letters ({name!a}), which may look like another name"
    return f"the name {name} mixes {mixed}" if len(scripts) > 1 else ""


def _name(field: Field, notes: Notes) -> str | None:
    name = normal_name(field.word)
    if is_agent_name(name):
        if doubt := name_doubt(name):
            notes.warn(field.line, doubt)
        return name
    rule = "use up to 64 letters, digits, `.`, `_` and `-`"
    fault = f"{name[:64]!r} isn't a valid name: {rule}" if name else "no name: add `name: …`"
    notes.error(field.line, fault)
    return None


def _switch(field: Field, notes: Notes) -> bool:
    """Return a key that keeps an agent safe: one that can't be read counts as set."""
    word = field.word.casefold()
    if word not in (*_TRUE, *_FALSE):
        message = f"{field.key}: {word[:60]!r} is read as true; write true or false"
        notes.warn(field.line, message, concerns_run=True)
    return word not in _FALSE


def _tools(field: Field, notes: Notes) -> tuple[str, ...]:
    names = field.names
    if not field.word:
        notes.warn(field.line, "tools is empty, so the agent gets none; write [] if you mean that")
    if len(names) > _MAX_TOOLS:
        notes.warn(field.line, f"{len(names)} tools listed; only the first {_MAX_TOOLS} are used")
    tools = [_tool(name, field.line, notes) for name in names[:_MAX_TOOLS]]
    return tuple(dict.fromkeys(filter(None, tools)))


def _tool(text: str, line: int, notes: Notes) -> str | None:
    name, shown = tool_catalogue.canonical(text), repr(text[:60])
    if name in tool_catalogue.NEVER_GIVEN:
        notes.warn(line, f"tool {shown} is never given to agents; ignored")
    elif not _TOOL.fullmatch(text):
        rule = "a rule in parentheses can't be enforced" if "(" in text else "separate with commas"
        notes.warn(line, f"tool {shown} isn't a plain name ({rule}); ignored")
        return None
    elif not tool_catalogue.is_own(name):
        near = tool_catalogue.nearest(name)
        hint = _suggestion([near]) if near else "; ignored unless one of your modules provides it"
        notes.warn(line, f"unknown tool {shown}{hint}")
    return name


def _model(field: Field, notes: Notes) -> str | None:
    if field.word.casefold() in ("", "inherit"):
        return None
    if not _MODEL.fullmatch(field.word):
        notes.warn(field.line, f"{field.word[:60]!r} isn't a model, ignored; write `provider:name`")
        return None
    return field.word


def _runtime(field: Field, source: Source, notes: Notes) -> str:
    """Return the runtime as it is written: an agent that can't have it may not run."""
    word = field.word or NATIVE
    if word not in (RUNTIMES if source is not Source.PROJECT else (NATIVE,)):
        rule = f"use {' or '.join(RUNTIMES)}; a repository's agent can't choose"
        notes.warn(field.line, f"can't run with runtime {word[:60]!r}: {rule}")
    return word


_CHOICES = {"network": ("none", "host"), "isolation": ("auto", "overlay", "copy", "none")}


def _choice(field: Field, safe: str, loose: str, source: Source, notes: Notes) -> str | None:
    """Return what a key says; what can't be read, or isn't a repository's to say, is the safe."""
    word, choices = field.word, _CHOICES[field.key]
    allowed = [one for one in choices if source is not Source.PROJECT or one != loose]
    if not word or word in allowed:
        return word or None
    rule = f"write {' or '.join(allowed)}; only your own files can loosen it"
    notes.warn(field.line, f"{field.key}: {word[:60]!r} is read as {safe}: {rule}")
    return safe
