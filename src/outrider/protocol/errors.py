"""What can go wrong: the error codes of a delegation, and the tree of our exceptions.

OutriderError
├── Refusal               a delegation that ends before a child is started
├── DelegationError       a delegation that did not complete, from `delegate`
├── LandingConflict       a landing or an undo that would overwrite somebody's work
├── CheckFailed           a landing that didn't pass its check
├── JournalLost           a map's journal that takes no more
├── SchemaError           an output schema that can't be used
├── SettingError          a setting's value that its key can't take
├── StartFailed           a child that could not be started
├── Flooded               a child that sent more than its limits allow
├── ToolFault             a tool call that ends in an error envelope
├── ModelUnavailable      a model that can't be asked
├── RequestFailed         a request to a model that brought no whole answer
├── ForkServerUnfit       a process that must not be forked
├── AgentUnusable         an agent file that can't be used
├── RpcError              a message of an MCP client that gets an error for an answer
└── OutputLost            standard output that can't take more
"""

from enum import StrEnum


class OutriderError(Exception):
    """The base of every exception that Outrider raises itself."""


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
        "The request is invalid: a missing or bad `agent`, `task`, `output_schema`, "
        "flag, variable or directory.",
    )
    SUBAGENTS_DISABLED = "SUBAGENTS_DISABLED", "Delegation is switched off in the configuration."
    UNKNOWN_AGENT = "UNKNOWN_AGENT", "No agent has this name; the message lists those that exist."
    SUBAGENT_DISABLED = (
        "SUBAGENT_DISABLED",
        "The agent is switched off, or a repository defines it and your policy refuses that.",
    )
    SUBAGENT_DEPTH_EXCEEDED = (
        "SUBAGENT_DEPTH_EXCEEDED",
        "A child tried to delegate deeper than `subagents.maxDepth` allows.",
    )
    SUBAGENT_TIMEOUT = (
        "SUBAGENT_TIMEOUT",
        "A deadline passed; `timeoutReason` says which: `runtime` or `idle`.",
    )
    SUBAGENT_FAILED = (
        "SUBAGENT_FAILED",
        "The child couldn't finish: it failed to start, crashed or was killed, or its model "
        "failed, refused, was cut off or said nothing.",
    )
    SUBAGENT_OUTPUT_TRUNCATED = (
        "SUBAGENT_OUTPUT_TRUNCATED",
        "With `completed`: the text was cut; `outputFile` has all of it. "
        "With `failed`: the child sent too much output and was stopped.",
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
    SUBAGENT_CHECK_FAILED = (
        "SUBAGENT_CHECK_FAILED",
        "The command that was to check the answer never passed; `check` says how it ended.",
    )


SUBAGENT_ERROR_CODES: tuple[str, ...] = tuple(ErrorCode)
"""All codes, in the order of the documentation."""


class Refusal(OutriderError):
    """A request that ends before any child is started, with the code and words the caller gets."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
