"""Which agents there are. A repository's files can't lead outside of it, and can't loosen an agent
of the user; a file that can't be used becomes a diagnostic, never an exception.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from heapq import nsmallest
from pathlib import Path

from outrider.agents.definitions import CODER, AgentDefinition, Source, parse_definition
from outrider.agents.frontmatter import Diagnostic, Notes
from outrider.protocol.data import frozen
from outrider.protocol.errors import OutriderError
from outrider.protocol.text import one_line, printable
from outrider.settings import places
from outrider.settings.files import read_plain_file

READERS = ("explorer", "researcher", "reviewer", "implementer", "tester")
BUILTIN_AGENTS = (*READERS, CODER)
MAX_FILE_BYTES = 256 * 1024
MAX_FILES = 500
_BUILTIN_FOLDER = Path(__file__).parent / "builtin"


@frozen
class Discovery:
    """Every agent by name, what is wrong with the files, and the definitions that lost."""

    agents: Mapping[str, AgentDefinition]
    diagnostics: tuple[Diagnostic, ...] = ()
    shadowed: tuple[AgentDefinition, ...] = ()

    @property
    def lost(self) -> list[str]:
        """A sentence for each file that isn't used because of another one."""
        return [
            f"{one.path}: not used; {self.agents[one.name].path} also defines {one.name}"
            for one in self.shadowed
        ]


class AgentUnusable(OutriderError):
    """An agent file that can't be used; the message says why."""


def builtin_agents() -> tuple[AgentDefinition, ...]:
    return tuple(map(builtin_agent, BUILTIN_AGENTS))


@cache
def builtin_agent(name: str) -> AgentDefinition:
    """Return one of them, or an unlisted one: `general` behind the `Task` profile, or `main`."""
    path = _BUILTIN_FOLDER / f"{name}.md"
    definition, _ = parse_definition(path.read_text("utf-8"), str(path), Source.BUILTIN)
    assert definition is not None, f"{path} is broken"
    return definition


def discover(cwd: Path, env: Mapping[str, str]) -> Discovery:
    """Return the agents known in `cwd`: the project's over the user's over the built-in ones."""
    notes: list[Diagnostic] = []
    user = _load(places.user_agent_folders(env), Source.USER, None, notes)
    folders, root = places.project_agent_folders(cwd, env), places.project_root(cwd, env)
    project = _load(folders, Source.PROJECT, root, notes)
    ranked = [*_bind_to_user(project, _winners(user), notes), *user, *builtin_agents()]
    agents = _winners(ranked)
    shadowed = tuple(lost for lost in ranked if agents[lost.name] is not lost)
    return Discovery(dict(sorted(agents.items())), tuple(notes), shadowed)


def _winners(ranked: Sequence[AgentDefinition]) -> dict[str, AgentDefinition]:
    return {definition.name: definition for definition in reversed(ranked)}


def _bind_to_user(
    project: list[AgentDefinition], user: Mapping[str, AgentDefinition], notes: list[Diagnostic]
) -> Iterator[AgentDefinition]:
    """Yield the project's agents, restricted like the user's agents of the same name."""
    for theirs in project:
        own = user.get(theirs.name, theirs)
        readonly, disabled = theirs.readonly or own.readonly, theirs.disabled or own.disabled
        merged = replace(theirs, readonly=readonly, disabled=disabled)
        if merged != theirs:
            message = f"readonly and disabled in {own.path} still apply to {theirs.name}"
            Notes(theirs.path, notes).warn(None, message)
        yield merged


def _load(
    folders: tuple[Path, ...], source: Source, root: Path | None, notes: list[Diagnostic]
) -> list[AgentDefinition]:
    definitions: list[AgentDefinition] = []
    for folder in folders:
        seen: dict[str, str] = {}
        for name in _agent_files(folder, notes):
            definition = _load_file(folder / name, source, root, notes)
            if definition is None:
                continue
            first = seen.setdefault(definition.name, name)
            if first != name:
                message = f"{definition.name} is already defined in {first}, which is used"
                Notes(definition.path, notes).warn(None, message)
            definitions.append(definition)
    return definitions


def _agent_files(folder: Path, notes: list[Diagnostic]) -> list[str]:
    try:
        with os.scandir(folder) as found:
            names = (item.name for item in found if item.name.endswith(places.AGENT_FILES))
            first = nsmallest(MAX_FILES + 1, names)
    except FileNotFoundError:
        return []
    except OSError as error:
        Notes(str(folder), notes).error(None, f"can't read the folder: {error.strerror}")
        return []
    if len(first) > MAX_FILES:
        message = f"more than {MAX_FILES} agent files; only the first {MAX_FILES} by name are used"
        Notes(str(folder), notes).warn(None, message)
    return first[:MAX_FILES]


def _load_file(
    path: Path, source: Source, root: Path | None, notes: list[Diagnostic]
) -> AgentDefinition | None:
    try:
        if not path.name.isprintable():
            raise AgentUnusable("its file name has unprintable characters")
        definition, own_notes = parse_definition(_read(path, root), str(path), source)
        schema = definition and definition.output_schema
        if schema and not os.path.isfile(_inside(schema, root, "its output_schema")):
            shown = one_line(printable(schema), 200)
            raise AgentUnusable(f"its output_schema isn't a file: {shown}")
    except AgentUnusable as fault:
        Notes(one_line(printable(str(path)), 4096), notes).error(None, str(fault))
        return None
    notes += own_notes
    return definition


def _read(path: Path, root: Path | None) -> str:
    try:
        content = read_plain_file(_inside(path, root, "it"), MAX_FILE_BYTES + 1)
    except OSError as error:
        raise AgentUnusable(f"can't be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise AgentUnusable(f"larger than {MAX_FILE_BYTES // 1024} KiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise AgentUnusable(f"not UTF-8 (byte {error.start})") from None


def _inside(path: Path | str, root: Path | None, what: str) -> str:
    """Return the real path of a file that must not lead outside of the project."""
    real = os.path.realpath(path)
    if root is not None and not Path(real).is_relative_to(os.path.realpath(root)):
        raise AgentUnusable(f"{what} leads outside the project, so it isn't read")
    return real
