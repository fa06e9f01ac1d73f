"""What one tool call did beside answering, recorded by the runtime as it happens."""

from pathlib import Path

from outrider.protocol.receipt import MAX_ENTRIES, CommandRun, Effects, FileWrite

MAX_COMMAND_CHARACTERS = 2_000


class EffectsRecorder:
    """Records the files and commands of one call, with paths relative to the working tree."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._read: dict[str, None] = {}
        self._written: list[FileWrite] = []
        self._commands: list[CommandRun] = []
        self._omitted = 0

    def file_read(self, path: Path | str) -> None:
        """Record that a file's content was read."""
        name = self._name(path)
        if name in self._read or self._has_room(len(self._read)):
            self._read[name] = None

    def file_written(self, path: Path | str, before: str | None, after: str | None) -> None:
        """Record a change of a file by its SHA-256 before and after, None for no file."""
        if self._has_room(len(self._written)):
            self._written.append(FileWrite(self._name(path), before, after))

    def command(self, command: str, exit_code: int | None) -> None:
        """Record a command and its exit code: None where it was ended before it had one."""
        if self._has_room(len(self._commands)):
            extra = len(command) - MAX_COMMAND_CHARACTERS
            if extra > 0:
                command = f"{command[:MAX_COMMAND_CHARACTERS]}… ({extra} more)"
            self._commands.append(CommandRun(command, exit_code))

    def effects(self) -> Effects:
        """Return what was recorded."""
        return Effects(
            tuple(self._read), tuple(self._written), tuple(self._commands), self._omitted
        )

    def _name(self, path: Path | str) -> str:
        path = Path(path)
        relative = path.relative_to(self._cwd) if path.is_relative_to(self._cwd) else path
        # A name that is not UTF-8 must not make the receipt unsendable.
        return str(relative).encode(errors="surrogateescape").decode(errors="replace")

    def _has_room(self, used: int) -> bool:
        if used < MAX_ENTRIES:
            return True
        self._omitted += 1
        return False
