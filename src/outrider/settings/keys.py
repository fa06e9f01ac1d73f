"""Every setting: its key, default, type, documentation, and what a repository may do to it."""

from collections.abc import Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from enum import StrEnum
from functools import reduce
from types import UnionType
from typing import Any, get_args, get_origin

from outrider.protocol.data import camel, frozen


class ProjectRule(StrEnum):
    """What a repository's file may do to a key."""

    LOWER = "switch off or lower"
    ADD = "add names"
    NEVER = "nothing"


def _key(default: Any, doc: str, **rules: Any) -> Any:
    """Return the field of a key; the rules are those that `Key` has."""
    metadata = {"doc": doc, **rules}
    if isinstance(default, dict):
        return field(default_factory=dict[str, Any], metadata=metadata)
    return field(default=default, metadata=metadata)


READ_ONLY_LSP_ACTIONS = (
    "definition", "references", "hover", "signature", "symbols", "diagnostics",
    "workspace-diagnostics", "servers", "implementation", "type-definition", "workspace-symbols",
    "incoming-calls", "outgoing-calls",
)  # fmt: skip
PRIVILEGED_LSP_ACTIONS = ("rename", "codeAction", "restart")  # never open to a child
OTLP_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@frozen
class RetryConfig:
    enabled: bool = _key(True, "Resend a model request after a transient failure.")
    max_attempts: int = _key(2, "Maximum attempts per model request.", minimum=1)


@frozen
class BudgetConfig:
    max_turns: int | None = _key(100, "Maximum turns of the model.", minimum=1)
    max_tool_calls: int | None = _key(None, "Maximum tool calls.")
    max_tokens: int | None = _key(None, "Maximum tokens, input and output.", minimum=1)
    max_cost: float | None = _key(None, "Maximum cost, in US dollars.")


@frozen
class ModelsConfig:
    wire: str = _key(
        "auto",
        "Client for models: `sdk` is pydantic-ai for all; `auto` takes Outrider's own for OpenAI-"
        "compatible chat.",
        choices=("auto", "sdk"),
    )


@frozen
class SubagentsConfig:
    enabled: bool = _key(True, "Enable delegation.")
    max_depth: int = _key(1, "Maximum nesting depth; a child is at depth 1.")
    timeout_ms: int = _key(900_000, "Hard deadline of a run, never extended.", minimum=1)
    idle_timeout_ms: int = _key(180_000, "Longest time a run may go without an event.", minimum=1)
    allow_write: bool = _key(False, "Give writing tools to agents that aren't `readonly`.")
    isolation: str = _key(
        "auto",
        "Where writers work: on an `overlay` or a `copy` of the folder, or in place (`none`). "
        "`auto`: an overlay if possible, else a copy.",
        choices=("auto", "overlay", "copy", "none"),
    )
    land: str = _key(
        "review",
        "When a writer's changes reach the folder: on `review`, `auto` after a completed run, or "
        "`never`.",
        choices=("review", "auto", "never"),
    )
    land_check: str | None = _key(None, "A command that every landing has to pass.")
    check_attempts: int = _key(2, "How often a failed check is handed back to the child.")
    network: str = _key(
        "none", "What commands of a child reach besides loopback.", choices=("none", "host")
    )
    allow_lsp_tools: bool = _key(True, "Let children query language servers.")
    allowed_lsp_actions: tuple[str, ...] = _key(
        READ_ONLY_LSP_ACTIONS, "The `lsp` actions a child may use.", choices=READ_ONLY_LSP_ACTIONS
    )
    inject_delegation_policy: bool = _key(True, "Tell the host's model when to delegate.")
    retry: RetryConfig = field(default_factory=RetryConfig)
    max_concurrent: int = _key(8, "Maximum concurrent children of one process.", minimum=1)
    report_back_attempts: int = _key(3, "Reports tried before `schema_failed`.", minimum=1)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    project_agent_policy: str = _key(
        "confirm", "Whether a repository's agents may run.", choices=("allow", "confirm", "deny")
    )
    non_interactive_policy: str = _key(
        "allow", "What `confirm` means when nobody can be asked.", choices=("allow", "deny")
    )
    trusted_projects: tuple[str, ...] = _key(
        (), "Repositories whose agents run without asking, with network tools."
    )
    disabled: tuple[str, ...] = _key((), "Agents to switch off.", project=ProjectRule.ADD)
    mask_tool_results: str = _key(
        "readonly",
        "Which children get tool results with secrets masked.",
        choices=("readonly", "always", "never"),
    )
    tools: tuple[str, ...] = _key(
        ("subagent",), "Tools a host offers to its model.", choices=("subagent", "Task", "Explore")
    )


@frozen
class FilesConfig:
    allowed_roots: tuple[str, ...] = _key((), "More folders that file tools may reach.")
    allow_credential_files: bool = _key(False, "Let tools open `.env`, private keys and the like.")


@frozen
class ToolsConfig:
    modules: tuple[str, ...] = _key((), "Modules with your own tools.", project=ProjectRule.NEVER)


SEARCH_PROVIDERS = ("tavily", "brave", "serper", "exa", "searxng", "duckduckgo")


@frozen
class WebConfig:
    enabled: bool = _key(True, "Let children use web tools.")
    provider: str = _key("auto", "Search provider.", choices=("auto", *SEARCH_PROVIDERS))
    provider_priority: tuple[str, ...] = _key(
        SEARCH_PROVIDERS, "Order in which `auto` tries providers.", choices=SEARCH_PROVIDERS
    )
    # A factory, as for any table.
    endpoints: dict[str, str] = _key({}, "Base URLs of search providers, by name.")
    allow_private_network: bool = _key(False, "Let web tools reach private addresses.")
    allowed_hosts: tuple[str, ...] = _key(
        (), "Private hosts that web tools may reach, as `host` or `host:port`."
    )
    use_proxy: bool = _key(False, "Use the proxy set in the environment.")
    respect_robots: bool = _key(False, "Honour `robots.txt`.", project=ProjectRule.NEVER)
    timeout_ms: int = _key(30_000, "Time limit for one request, including redirects.", minimum=1)
    max_bytes: int = _key(10_485_760, "Maximum bytes of one response, decompressed.", minimum=1024)
    max_concurrent: int = _key(8, "Maximum concurrent requests.", minimum=1)
    max_concurrent_per_host: int = _key(4, "Maximum concurrent requests to one host.", minimum=1)
    cache_bytes: int = _key(268_435_456, "Maximum bytes of pages a run caches; 0 caches none.")


@frozen
class ConvertConfig:
    enabled: bool = _key(True, "Let children convert documents.")
    timeout_ms: int = _key(60_000, "Time limit for one document.", minimum=1)
    max_bytes: int = _key(52_428_800, "Maximum bytes of one document.", minimum=1024)
    memory_bytes: int = _key(1_073_741_824, "Memory limit for one document.", minimum=1 << 26)


@frozen
class ServerConfig:
    """What the user says of one language server; what is empty stays as it is known."""

    command: tuple[str, ...] = ()
    file_types: tuple[str, ...] = ()
    root_markers: tuple[str, ...] = ()
    initialization_options: Any = None


@frozen
class LspToolConfig:
    allow_mutating_actions: bool = _key(
        False, "Let people and main agents use `rename`, `codeAction` and `restart`."
    )


@frozen
class LspConfig:
    enabled: bool = _key(True, "Enable language servers.")
    servers: dict[str, Any] = _key({}, "Your own language servers.", entries=ServerConfig)
    preferred: dict[str, str] = _key({}, "Preferred server, by language.")
    request_timeout_ms: int = _key(15_000, "Time limit for one request to a server.", minimum=1)
    start_timeout_ms: int = _key(30_000, "Time limit for a server to start and load.", minimum=1)
    tool: LspToolConfig = field(default_factory=LspToolConfig)


@frozen
class LimitsConfig:
    result_bytes: int = _key(204_800, "Maximum bytes of text shown to a caller.", minimum=1024)
    result_lines: int = _key(5_000, "Maximum lines of text shown to a caller.", minimum=10)
    stdout_bytes: int = _key(67_108_864, "Maximum bytes of events from one child.", minimum=1024)
    stderr_bytes: int = _key(1_048_576, "Maximum bytes of a child's other output.", minimum=1024)
    event_bytes: int = _key(8_388_608, "Maximum bytes of one event.", minimum=1024)
    events: int = _key(100_000, "Maximum events from one child, not counting deltas.", minimum=10)


@frozen
class RunsConfig:
    """How long finished runs are kept. Not a repository's to change: lowering it would delete."""

    keep_days: int = _key(30, "Days to keep a run.", project=ProjectRule.NEVER)
    keep_bytes: int = _key(1_073_741_824, "Maximum bytes of all runs.", project=ProjectRule.NEVER)


@frozen
class WarmConfig:
    keep_minutes: int = _key(10, "Minutes to keep the warm process; 0 turns it off.")


@frozen
class McpConfig:
    reply_within_ms: int = _key(
        50_000, "Time until a host that takes no progress gets a handle for its run.", minimum=1
    )
    result_bytes: int = _key(16_000, "Maximum bytes of one tool result.", minimum=1024)


@frozen
class CommandsConfig:
    enabled: bool = _key(True, "Enable `/toolkit` in chats.")


@frozen
class TelemetryConfig:
    """Traces. Not a repository's to switch off: they show what its agents do."""

    enabled: bool = _key(False, "Send traces, by OpenTelemetry.", project=ProjectRule.NEVER)

    def is_on(self, env: Mapping[str, str]) -> bool:
        """Return whether runs are traced in an environment."""
        if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return False
        return self.enabled or any(map(env.get, OTLP_ENDPOINTS))


@frozen
class ViewConfig:
    port: int = _key(
        0, "Port of `outrider view`; 0 takes any that is free.", project=ProjectRule.NEVER
    )
    editor: str | None = _key(
        None, "Command that opens a file from the page, such as `code -g {path}:{line}`."
    )


@frozen
class Config:
    """Every setting, at its effective value."""

    model: str | None = _key(None, "Model to use, as `provider:name`.")
    models: ModelsConfig = field(default_factory=ModelsConfig)
    subagents: SubagentsConfig = field(default_factory=SubagentsConfig)
    files: FilesConfig = field(default_factory=FilesConfig)
    tools: ToolsConfig = field(default_factory=ToolsConfig)
    web: WebConfig = field(default_factory=WebConfig)
    convert: ConvertConfig = field(default_factory=ConvertConfig)
    lsp: LspConfig = field(default_factory=LspConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    runs: RunsConfig = field(default_factory=RunsConfig)
    warm: WarmConfig = field(default_factory=WarmConfig)
    commands: CommandsConfig = field(default_factory=CommandsConfig)
    mcp: McpConfig = field(default_factory=McpConfig)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    view: ViewConfig = field(default_factory=ViewConfig)


@frozen
class Key:
    """One key: its dotted name, its place in `Config`, and its rules."""

    name: str
    path: tuple[str, ...]
    default: Any
    kind: type
    nullable: bool
    doc: str
    minimum: float = 0
    choices: tuple[str, ...] = ()
    project: ProjectRule = ProjectRule.LOWER
    entries: type = str  # what a table holds: texts, or what a dataclass describes


def _walk(section: Any, path: tuple[str, ...]) -> Iterator[Key]:
    for item in fields(section):
        value, here = getattr(section, item.name), (*path, item.name)
        if is_dataclass(value):
            yield from _walk(value, here)
            continue
        annotation: Any = item.type
        nullable = get_origin(annotation) is UnionType
        kind = get_args(annotation)[0] if nullable else get_origin(annotation) or annotation
        # There is no lower value of a text or a table.
        rules: dict[str, Any] = {"project": ProjectRule.NEVER} if kind in (str, dict) else {}
        rules |= item.metadata
        yield Key(".".join(map(camel, here)), here, value, kind, nullable, **rules)


DEFAULTS = Config()
KEYS: dict[str, Key] = {key.name: key for key in _walk(DEFAULTS, ())}


def value_of(config: Config, name: str) -> Any:
    return reduce(getattr, KEYS[name].path, config)
