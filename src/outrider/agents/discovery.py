"""Which agents there are. A repository's files can neither lead outside of it nor free an agent
that the user has bound; a file that can't be used comes out as a diagnostic, never as an exception.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from heapq import nsmallest
from pathlib import Path

from outrider.agents.definitions import (
    AgentDefinition,
    Diagnostic,
    Source,
    one_line,
    parse_definition,
)
from outrider.settings.places import project_agent_folders, project_root, user_agent_folders

BUILTIN_AGENTS = ("explorer", "researcher", "reviewer", "implementer", "tester")
MAX_FILE_BYTES = 256 * 1024
MAX_FILES = 500
_BUILTIN_FOLDER = Path(__file__).parent / "builtin"


@dataclass(frozen=True, slots=True)
class Discovery:
    """Every agent by name, what was wrong with the files, and the definitions that lost."""

    agents: Mapping[str, AgentDefinition]
    diagnostics: tuple[Diagnostic, ...] = ()
    shadowed: tuple[AgentDefinition, ...] = ()


class _Unusable(Exception):
    """Why a file can't be used."""


@cache
def builtin_agents() -> tuple[AgentDefinition, ...]:
    """Return the five agents that come with Outrider."""
    return tuple(_builtin(name) for name in BUILTIN_AGENTS)


@cache
def general_agent() -> AgentDefinition:
    """Return the agent behind the `Task` profile, which isn't listed among the others."""
    return _builtin("general")


def discover(cwd: Path, env: Mapping[str, str]) -> Discovery:
    """Return the agents known in `cwd`: the project's over the user's over the built-in ones."""
    root = project_root(cwd, env)
    user, user_notes = _load(user_agent_folders(env), Source.USER, None)
    project, project_notes = _load(project_agent_folders(cwd, env), Source.PROJECT, root)
    bound, bound_notes = _bound_by_user(project, _winners(user))
    ranked = [*bound, *user, *builtin_agents()]
    agents = _winners(ranked)
    return Discovery(
        agents=dict(sorted(agents.items())),
        diagnostics=(*user_notes, *project_notes, *bound_notes),
        shadowed=tuple(lost for lost in ranked if agents[lost.name] is not lost),
    )


def _winners(ranked: Iterable[AgentDefinition]) -> dict[str, AgentDefinition]:
    winners: dict[str, AgentDefinition] = {}
    for definition in ranked:
        winners.setdefault(definition.name, definition)
    return winners


def _bound_by_user(
    project: list[AgentDefinition], user: Mapping[str, AgentDefinition]
) -> tuple[list[AgentDefinition], list[Diagnostic]]:
    """Return the project's agents, as bound as the user's of the same name."""
    bound: list[AgentDefinition] = []
    notes: list[Diagnostic] = []
    for theirs in project:
        own = user.get(theirs.name, theirs)
        merged = replace(
            theirs,
            readonly=theirs.readonly or own.readonly,
            disabled=theirs.disabled or own.disabled,
        )
        if merged != theirs:
            message = f"{theirs.name} stays as bound as in {own.path} (readonly, disabled)"
            notes.append(_warning(theirs.path, message))
        bound.append(merged)
    return bound, notes


def _load(
    folders: tuple[Path, ...], source: Source, root: Path | None
) -> tuple[list[AgentDefinition], list[Diagnostic]]:
    definitions: list[AgentDefinition] = []
    notes: list[Diagnostic] = []
    for folder in folders:
        names, listing_notes = _agent_files(folder)
        notes += listing_notes
        seen: dict[str, str] = {}
        for name in names:
            definition, file_notes = _load_file(folder / name, source, root)
            notes += file_notes
            if definition is None:
                continue
            first = seen.setdefault(definition.name, name)
            if first != name:
                message = f"{definition.name} is already defined in {first}, which counts"
                notes.append(_warning(definition.path, message))
            definitions.append(definition)
    return definitions, notes


def _agent_files(folder: Path) -> tuple[list[str], list[Diagnostic]]:
    try:
        with os.scandir(folder) as found:
            names = nsmallest(MAX_FILES + 1, (item.name for item in found if _is_agent_file(item)))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [_error(folder, f"the folder can't be read: {error.strerror}")]
    if len(names) > MAX_FILES:
        message = f"more than {MAX_FILES} agent files; only the first {MAX_FILES} by name count"
        return names[:MAX_FILES], [_warning(str(folder), message)]
    return names, []


def _is_agent_file(item: os.DirEntry[str]) -> bool:
    return item.name.endswith(".md")


def _load_file(
    path: Path, source: Source, root: Path | None
) -> tuple[AgentDefinition | None, list[Diagnostic]]:
    try:
        if not path.name.isprintable():
            raise _Unusable("its file name isn't plain text")
        definition, notes = parse_definition(_read(path, root), str(path), source)
        if definition and definition.output_schema:
            _check_schema(definition.output_schema, root)
    except _Unusable as fault:
        return None, [_error(path, str(fault))]
    return definition, notes


def _read(path: Path, root: Path | None) -> str:
    real = os.path.realpath(path)
    if not _is_inside(real, root):
        raise _Unusable("it leads outside of the project, so it isn't read")
    try:
        with open(real, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _Unusable("it isn't a regular file")
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _Unusable(f"it can't be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise _Unusable(f"it is larger than {MAX_FILE_BYTES // 1024} KiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Unusable(f"it isn't UTF-8 (byte {error.start})") from None


def _open_at_once(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    return os.open(path, flags | os.O_NONBLOCK)


def _check_schema(path: str, root: Path | None) -> None:
    real = os.path.realpath(path)
    if not _is_inside(real, root):
        raise _Unusable("its output_schema leads outside of the project")
    if not os.path.isfile(real):
        raise _Unusable(f"its output_schema isn't a file: {one_line(path, 200)}")


def _is_inside(real: str, root: Path | None) -> bool:
    return root is None or Path(real).is_relative_to(os.path.realpath(root))


def _builtin(name: str) -> AgentDefinition:
    path = _BUILTIN_FOLDER / f"{name}.md"
    definition, _ = parse_definition(path.read_text("utf-8"), str(path), Source.BUILTIN)
    assert definition is not None, f"{path} is broken"
    return definition


def _error(path: Path, message: str) -> Diagnostic:
    return Diagnostic(one_line(str(path), 4096), None, message, "error")


def _warning(path: str, message: str) -> Diagnostic:
    return Diagnostic(path, None, message, "warning")
