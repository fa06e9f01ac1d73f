"""The receipt: what the runtime itself saw a child do, whatever the child says it did."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MAX_ENTRIES = 1_000


@dataclass(frozen=True, slots=True)
class FileWrite:
    """One file written; the hashes are sha256, None where there was no file."""

    path: str
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class CommandRun:
    """One command; `exit_code` is None where it was stopped before it had one."""

    command: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Effects:
    """What one tool call did beside answering."""

    files_read: tuple[str, ...] = ()
    files_written: tuple[FileWrite, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    omitted: int = 0


@dataclass(slots=True)
class Receipt:
    """The sum of a run's tool calls; `omitted` counts what the bounded lists left out."""

    tool_calls: int = 0
    tool_errors: int = 0
    omitted: int = 0
    _read: dict[str, None] = field(default_factory=dict[str, None])
    _written: dict[str, FileWrite] = field(default_factory=dict[str, FileWrite])
    _commands: list[CommandRun] = field(default_factory=list[CommandRun])

    def add(self, effects: Effects, *, failed: bool) -> None:
        """Count one finished call and what it did."""
        self.tool_calls += 1
        self.tool_errors += failed
        self.omitted += effects.omitted
        for path in self._fitting(effects.files_read, self._read):
            self._read[path] = None
        for write in effects.files_written:
            self._add_write(write)
        for command in effects.commands:
            if len(self._commands) < MAX_ENTRIES:
                self._commands.append(command)
            else:
                self.omitted += 1

    def _fitting(self, paths: Iterable[str], known: dict[str, None]) -> Iterable[str]:
        for path in paths:
            if path in known or len(known) < MAX_ENTRIES:
                yield path
            else:
                self.omitted += 1

    def _add_write(self, write: FileWrite) -> None:
        first = self._written.get(write.path)
        if first is None and len(self._written) >= MAX_ENTRIES:
            self.omitted += 1
            return
        # Written twice: what it was before the run, and what it is after it.
        before = first.before if first else write.before
        self._written[write.path] = FileWrite(write.path, before, write.after)

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as the result carries it."""
        receipt: dict[str, Any] = {
            "toolCalls": self.tool_calls,
            "toolErrors": self.tool_errors,
            "filesRead": list(self._read),
            "filesWritten": [
                {"path": write.path, "before": write.before, "after": write.after}
                for write in self._written.values()
            ],
            "commands": [
                {"command": run.command, "exitCode": run.exit_code} for run in self._commands
            ],
        }
        return receipt | ({"omitted": self.omitted} if self.omitted else {})
