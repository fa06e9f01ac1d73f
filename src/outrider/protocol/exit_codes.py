"""The exit codes of the command line, and which of them a run or a result has."""

from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import ToolResult

EXIT_COMPLETED = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_CONFLICT = 3  # a landing or an undo that would overwrite somebody's work
EXIT_TIMED_OUT = 124
EXIT_CANCELLED = 130
EXIT_READER_GONE = 141  # 128 + SIGPIPE: nobody reads stdout any more
_EXIT_OF_OUTCOME = {
    Outcome.COMPLETED: EXIT_COMPLETED,
    Outcome.TIMED_OUT: EXIT_TIMED_OUT,
    Outcome.CANCELLED: EXIT_CANCELLED,
}


def exit_code(outcome: Outcome, signal: int | None = None) -> int:
    """Return the exit code that follows from an outcome; `signal` is what killed the child."""
    failed = EXIT_FAILED if signal is None else 128 + signal
    return _EXIT_OF_OUTCOME.get(outcome, failed)


def result_exit_code(result: ToolResult) -> int:
    """Return the exit code of a command that shows this result."""
    # Without a run no child was started: it was refused, or there is no room for its record.
    return EXIT_REFUSED if result.result is None else result.result.exit_code
