"""What one tool call did beside answering, recorded by the runtime as it happens."""

from pathlib import Path

from outrider.protocol.receipt import CommandRun, Effects, FileWrite

MAX_COMMAND_CHARACTERS = 2_000


class EffectsRecorder:
    """Records the files and commands of one call, with paths relative to the working tree."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._read: dict[str, None] = {}
        self._written: list[FileWrite] = []
        self._commands: list[CommandRun] = []

    def file_read(self, path: Path | str) -> None:
        """Record that a file's content was read."""
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
