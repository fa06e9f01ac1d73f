"""The brief: all that a child is told, in one JSON object on its standard input."""

from dataclasses import field
from typing import Any

from outrider.protocol.data import frozen

RUN_VARIABLE = "OUTRIDER_SUBAGENT_RUN"
"""The variable that has the run's id in the environment of a child and all that it starts."""
CHILD_VARIABLE = "OUTRIDER_SUBAGENT_CHILD"
DEPTH_VARIABLE = "OUTRIDER_SUBAGENT_DEPTH"
CHILD_VARIABLES = (RUN_VARIABLE, CHILD_VARIABLE, DEPTH_VARIABLE)
"""What tells a child what it is; none of them is a setting."""
NOTIFY_VARIABLES = ("OUTRIDER_RUN_ID", "OUTRIDER_RUN_OUTCOME")
"""What the command gets that is started when a background run has ended."""
MAX_DEPTH_VARIABLE = "OUTRIDER_SUBAGENTS__MAX_DEPTH"
"""The setting that a child gets from its caller, as all below it has the same limit."""


@frozen
class BudgetLimits:
    """What one run may use; None is no limit."""

    max_turns: int | None = 100
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None


@frozen
class HostTool:
    """A tool that the parent carries out for a main agent."""

    name: str
    description: str
    parameters: Any


@frozen
class MainTurn:
    """What a turn of a main agent has, and no delegated task: a parent to ask."""

    host_tools: tuple[HostTool, ...] = ()
    ask_before: tuple[str, ...] = ()
    """The tools, or single actions as `tool action`, whose calls the parent has to allow."""


@frozen
class Brief:
    """One task for one child. Secrets travel in the environment, never here."""

    run_id: str
    agent: str
    system_prompt: str
    task: str
    model: str
    cwd: str
    tools: tuple[str, ...] = ()
    lsp_actions: tuple[str, ...] = ()
    tool_modules: tuple[str, ...] = ()
    tool_path: tuple[str, ...] = ()
    """Where the parent finds them, after all that the child has itself."""
    allowed_roots: tuple[str, ...] = ()
    allow_credential_files: bool = False
    isolation: str | None = None
    """Where it may write, which the kernel sees to: `readonly`; `auto`, `overlay` or `copy` for a
    layer; `none` for in place. None for a main agent, which works without walls."""
    layer: str | None = None  # the folder of its layer, where it has one
    layer_bytes: int = 1 << 30  # how much it may write there
    check: str | None = None  # the command that has to pass before the task is done
    check_attempts: int = 0  # how often the child may go on after that failed
    network: str = "none"  # what its commands reach: `none` or `host`
    mask_tool_results: bool = True
    output_schema: Any = None
    report_back_attempts: int = 3
    timeout_ms: int = 900_000
    spill_folder: str | None = None
    wire: str = "auto"  # how the model is reached; `auto` where the child is to decide
    request_attempts: int = 2  # how often one request to the model is sent at most
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    web: dict[str, Any] | None = None  # the settings of the web tools, where it has one of these
    convert: dict[str, Any] | None = None
    """The settings of the document converter, where it may convert."""
    lsp: dict[str, Any] | None = None  # the settings of language servers, where it may ask these
    trusted: bool = False
    """Whether the user trusts the repository, so that what lies in it may be run."""
    state_folder: str | None = None  # where caches and activity are kept
    history: tuple[Any, ...] = ()
    """What was said before the task: `user`, `assistant` and `tools` messages."""
    main_turn: MainTurn | None = None  # None for everyone who is delegated to

    @property
    def loads(self) -> str:
        """What a child has to have loaded for its model: a wire of ours, or a provider's SDK."""
        return self.wire if self.wire in ("lean", "embedded") else self.model.partition(":")[0]


@frozen
class Start:
    """What a child reads first: its brief, and the variables of its caller to take on.

    A cold child has them from the start but for the secrets, a fork of the warm process has none.
    """

    brief: Brief
    environment: dict[str, str]
    begun: float | None = None
    """When the run began, on the clock of `time.monotonic`; None where its time begins now."""
