"""How a delegation can end: error codes, outcomes and exit codes, each defined once."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """The code in `details.error.code`."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> "ErrorCode":
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    INVALID_INPUT = (
        "INVALID_INPUT",
        "The request can't be used: a missing or bad `agent`, `task`, `output_schema`, "
        "flag, variable or directory.",
    )
    SUBAGENTS_DISABLED = (
        "SUBAGENTS_DISABLED",
        "Delegation is switched off by the configuration.",
    )
    UNKNOWN_AGENT = "UNKNOWN_AGENT", "No agent has that name; the message lists those that exist."
    SUBAGENT_DISABLED = (
        "SUBAGENT_DISABLED",
        "This agent is switched off, or it is a repository's and the user's policy refuses it.",
    )
    SUBAGENT_DEPTH_EXCEEDED = (
        "SUBAGENT_DEPTH_EXCEEDED",
        "A child tried to delegate further than `subagents.maxDepth` allows.",
    )
    SUBAGENT_TIMEOUT = (
        "SUBAGENT_TIMEOUT",
        "A deadline passed; `timeoutReason` says which: `runtime` or `idle`.",
    )
    SUBAGENT_FAILED = (
        "SUBAGENT_FAILED",
        "The child could not finish: it failed to start, crashed, was killed, or its model "
        "failed, refused, was cut or said nothing.",
    )
    SUBAGENT_OUTPUT_TRUNCATED = (
        "SUBAGENT_OUTPUT_TRUNCATED",
        "With `completed`: the text shown was cut, the whole is in `outputFile`. "
        "With `failed`: the child flooded its output and was stopped.",
    )
    SUBAGENT_CANCELLED = "SUBAGENT_CANCELLED", "The caller, or Ctrl-C, stopped the run."
    SUBAGENT_OUTPUT_INVALID = (
        "SUBAGENT_OUTPUT_INVALID",
        "The `output_schema` was never satisfied; `schemaFaults` says why.",
    )
    SUBAGENT_BUDGET_EXCEEDED = (
        "SUBAGENT_BUDGET_EXCEEDED",
        "A budget of turns, tool calls, tokens or money was used up.",
    )


class Outcome(StrEnum):
    """How a child's run ended, in `results[0].outcome`."""

    COMPLETED = "completed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    OVER_BUDGET = "over_budget"
    SCHEMA_FAILED = "schema_failed"
    FAILED = "failed"


class TimeoutReason(StrEnum):
    """Which deadline passed."""

    RUNTIME = "runtime"
    IDLE = "idle"


EXIT_COMPLETED = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_TIMED_OUT = 124
EXIT_CANCELLED = 130

ERROR_OF_OUTCOME = {
    Outcome.TIMED_OUT: ErrorCode.SUBAGENT_TIMEOUT,
    Outcome.CANCELLED: ErrorCode.SUBAGENT_CANCELLED,
    Outcome.OVER_BUDGET: ErrorCode.SUBAGENT_BUDGET_EXCEEDED,
    Outcome.SCHEMA_FAILED: ErrorCode.SUBAGENT_OUTPUT_INVALID,
    Outcome.FAILED: ErrorCode.SUBAGENT_FAILED,
}


def exit_code(outcome: Outcome, signal: int | None = None) -> int:
    """Return the exit code that follows from an outcome; `signal` is what killed the child."""
    match outcome:
        case Outcome.COMPLETED:
            return EXIT_COMPLETED
        case Outcome.TIMED_OUT:
            return EXIT_TIMED_OUT
        case Outcome.CANCELLED:
            return EXIT_CANCELLED
        case _:
            return EXIT_FAILED if signal is None else 128 + signal


class Refusal(Exception):
    """A request that ends before any child is started, with the code and words the caller gets."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
