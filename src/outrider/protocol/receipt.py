"""The receipt: what the runtime itself saw a child do, whatever the child says it did."""

from dataclasses import asdict, dataclass, field
from typing import Any

from outrider.protocol.data import frozen, member
from outrider.protocol.envelope import ToolCode, is_success
from outrider.protocol.text import one_line

MAX_ENTRIES = 1_000
MAX_FAULT = 300
_FAULTS_OF_THE_CALL = range(ToolCode.ARGUMENTS_NOT_JSON, ToolCode.UPSTREAM_FAILED)
"""These codes tell the model something about its call, and nothing about the tool."""


@frozen
class FileWrite:
    """One file written; the hashes are sha256, None where there was no file."""

    path: str
    before: str | None = None
    after: str | None = None


@frozen
class CommandRun:
    """One command; `exit_code` is None where it was stopped before it had one."""

    command: str
    exit_code: int | None = None


@frozen
class Effects:
    """What tool calls did beside answering; `omitted` counts what the bounded lists left out."""

    files_read: tuple[str, ...] = ()
    files_written: tuple[FileWrite, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    omitted: int = 0

    def __add__(self, later: "Effects") -> "Effects":
        """Return both, each file once, with at most MAX_ENTRIES in a list."""
        read = tuple(dict.fromkeys(self.files_read + later.files_read))
        written: dict[str, FileWrite] = {}
        for write in self.files_written + later.files_written:
            # Written twice: what it was before the first time, and what it is after the last.
            before = written.get(write.path, write).before
            written[write.path] = FileWrite(write.path, before, write.after)
        writes, commands = tuple(written.values()), self.commands + later.commands
        extra = sum(max(len(one) - MAX_ENTRIES, 0) for one in (read, writes, commands))
        kept = (read[:MAX_ENTRIES], writes[:MAX_ENTRIES], commands[:MAX_ENTRIES])
        return Effects(*kept, self.omitted + later.omitted + extra)


@dataclass(slots=True, eq=False, repr=False)
class Receipt:
    """The sum of a run's tool calls."""

    tool_calls: int = 0
    tool_errors: int = 0
    effects: Effects = field(default_factory=Effects)
    _faults: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def add(self, tool: str, effects: Effects, envelope: Any) -> None:
        """Count one finished call and what it did."""
        failed = not is_success(envelope)
        self.tool_calls += 1
        self.tool_errors += failed
        self.effects += effects
        code = member(envelope, "code")
        works = not failed or (code in _FAULTS_OF_THE_CALL and code != ToolCode.DENIED)
        fault = None if works else one_line(str(member(envelope, "message")), MAX_FAULT)
        self._faults[tool] = fault and self._faults.get(tool, fault)

    @property
    def fruitless(self) -> dict[str, str]:
        """The tools that did nothing in any of their calls, each with its first reason."""
        return {tool: fault for tool, fault in self._faults.items() if fault}

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as the result carries it."""
        did = self.effects
        commands = [{"command": run.command, "exitCode": run.exit_code} for run in did.commands]
        receipt: dict[str, Any] = {
            "toolCalls": self.tool_calls,
            "toolErrors": self.tool_errors,
            "filesRead": list(did.files_read),
            "filesWritten": [asdict(write) for write in did.files_written],
            "commands": commands,
        }
        return receipt | ({"omitted": did.omitted} if did.omitted else {})
