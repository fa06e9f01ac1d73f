"""What a tool may know of the child that calls it, what its call did, and where results spill."""

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from outrider.masking import Masker
from outrider.protocol.receipt import CommandRun, Effects, FileWrite
from outrider.settings.keys import ConvertConfig
from outrider.workspaces.opening import READ, keep_new
from outrider.workspaces.path_guard import Workspace

if TYPE_CHECKING:
    from outrider.processes.cell_start import Cells

SPILL_PREFIX = "outrider-result:"
MAX_COMMAND_CHARACTERS = 2_000


class ChildSession(Protocol):
    """What the calls of a child share, and what ends with it."""

    async def aclose(self) -> None: ...


class WebAccess(ChildSession, Protocol):
    """A child's way to the web, which local text must not take."""

    def remember(self, text: str) -> None:
        """Take note of what a tool showed of local files."""


class EffectsRecorder:
    """Records the files and commands of one call, with paths relative to the working tree."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._read: dict[str, None] = {}
        self._written: list[FileWrite] = []
        self._commands: list[CommandRun] = []

    def file_read(self, path: Path | str) -> None:
        self._read[self._name(path)] = None

    def file_written(self, path: Path | str, before: str | None, after: str | None) -> None:
        """Record a change of a file by its SHA-256 before and after, None for no file."""
        self._written.append(FileWrite(self._name(path), before, after))

    def command(self, command: str, exit_code: int | None) -> None:
        """Record a command and its exit code: None where it was ended before it had one."""
        extra = len(command) - MAX_COMMAND_CHARACTERS
        if extra > 0:
            command = f"{command[:MAX_COMMAND_CHARACTERS]}… ({extra} more)"
        self._commands.append(CommandRun(command, exit_code))

    def effects(self) -> Effects:
        """Return what was recorded, within the bounds of a receipt."""
        return Effects() + Effects(tuple(self._read), tuple(self._written), tuple(self._commands))

    def _name(self, path: Path | str) -> str:
        path = Path(path)
        relative = path.relative_to(self._cwd) if path.is_relative_to(self._cwd) else path
        # A name that is not UTF-8 must not make the receipt unsendable.
        return str(relative).encode(errors="surrogateescape").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The working tree and the limits of one child, and where a call's effects are recorded.

    A copy (`replace`) is for one call: it has effects and an end of its own.
    A tool that declares a parameter of this type is given it; models never see that parameter.
    """

    cwd: Path  # the working tree: absolute, symlinks resolved
    allowed_roots: tuple[Path, ...] = ()
    allow_credential_files: bool = False
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """For commands: the child's environment without its secrets."""
    mask: Masker | None = None  # hides secrets in what tools return; None: the truth may be seen
    session_id: str | None = None  # the session of calls that name none; else theirs is temporary
    spill: Path | None = None  # the folder for what was cut from results; without it that is lost
    web: WebAccess | None = None  # the child's way to the web, where it may use that
    lsp: ChildSession | None = None  # the child's language servers, where it may ask these
    convert: ConvertConfig | None = field(default_factory=ConvertConfig)
    """The limits for documents; None where none are converted."""
    cells: "Cells | None" = None  # confine the programs that it starts; None where a person lets it
    stop: threading.Event = field(default_factory=threading.Event, init=False)
    """Set when the caller has given the call up: what isn't done yet must not be done."""
    effects: EffectsRecorder = field(init=False)
    workspace: Workspace = field(default=None)  # pyright: ignore[reportAssignmentType]  # set below
    """Where the files are: the folder `cwd` and the allowed roots, unless another is given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cwd", Path(self.cwd).resolve())
        object.__setattr__(self, "effects", EffectsRecorder(self.cwd))
        if self.workspace is None:  # pyright: ignore[reportUnnecessaryComparison]  # the default
            roots = tuple(map(str, (self.cwd, *self.allowed_roots)))
            workspace = Workspace(roots, self.allow_credential_files)
            object.__setattr__(self, "workspace", workspace)

    def spill_folder(self) -> Path | None:
        """Return a folder that is removed when the run is over, or None where there is none."""
        if self.spill is not None:
            self.spill.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.spill

    def keep_whole(self, text: str) -> str | None:
        """Return a name under which `read` finds this text again, or None where none is kept."""
        folder = self.spill_folder()
        if folder is None:
            return None
        number = 1
        while os.path.lexists(path := folder / f"result-{number}.txt"):
            number += 1
        keep_new(path, text.encode(errors="replace"))
        return f"{SPILL_PREFIX}{number}"

    def find_spilled(self, name: str) -> Path | None:
        """Return the file that holds a kept result, or None where the name isn't one."""
        match = re.fullmatch(rf"{SPILL_PREFIX}([0-9]{{1,9}})", name, re.ASCII)
        if match is None or self.spill is None:
            return None
        path = self.spill / f"result-{match[1]}.txt"
        return path if path.is_file() and not path.is_symlink() else None

    def open_spilled(self, name: str) -> BinaryIO | None:
        """Return such a file, open; a link that a command puts there isn't followed."""
        path = self.find_spilled(name)
        return open(os.open(path, READ), "rb") if path else None
