"""The configuration: every key with its default, type and rule, and how the layers merge.

A repository's file can switch off and lower, nothing else: `narrowed` decides that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, cast


class ProjectRule(StrEnum):
    """What a repository's file may do to a key."""

    LOWER = "switch off or lower"
    ADD = "add names"
    NEVER = "nothing"


def _key(
    default: Any,
    doc: str,
    *,
    minimum: float = 0,
    choices: Sequence[str] = (),
    kind: type | None = None,
    project: ProjectRule = ProjectRule.LOWER,
) -> Any:
    metadata = {
        "doc": doc,
        "minimum": minimum,
        "choices": tuple(choices),
        "kind": kind or type(default),
        "project": project,
    }
    return field(default=default, metadata=metadata)


READ_ONLY_LSP_ACTIONS = (
    "definition",
    "references",
    "hover",
    "signature",
    "symbols",
    "diagnostics",
    "workspace-diagnostics",
    "servers",
)


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """When a model's passing failure is tried again."""

    enabled: bool = _key(True, "Try a request again after a passing failure of the model.")
    max_attempts: int = _key(2, "How often one request is sent at most.", minimum=1)


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """What one run may use up."""

    max_turns: int | None = _key(100, "Turns of the model.", minimum=1)
    max_tool_calls: int | None = _key(None, "Tool calls.", minimum=0, kind=int)
    max_tokens: int | None = _key(None, "Tokens in and out, of all turns.", minimum=1, kind=int)
    max_cost: float | None = _key(None, "Money, in US dollars.", minimum=0, kind=float)


@dataclass(frozen=True, slots=True)
class SubagentsConfig:
    """Delegation itself."""

    enabled: bool = _key(True, "Whether tasks can be delegated at all.")
    max_depth: int = _key(1, "How deep delegations may nest; a child is at depth 1.", minimum=0)
    timeout_ms: int = _key(900_000, "Hard deadline of a run, never reset.", minimum=1)
    idle_timeout_ms: int = _key(180_000, "Longest time without an event.", minimum=1)
    allow_write: bool = _key(False, "Let agents that aren't `readonly` have their writing tools.")
    allow_lsp_tools: bool = _key(True, "Let children ask language servers.")
    allowed_lsp_actions: tuple[str, ...] = _key(
        READ_ONLY_LSP_ACTIONS, "Which `lsp` actions a child may use.", choices=READ_ONLY_LSP_ACTIONS
    )
    inject_delegation_policy: bool = _key(True, "Tell the host's model when to delegate.")
    retry: RetryConfig = field(default_factory=RetryConfig)
    max_concurrent: int = _key(8, "Children at once from one process.", minimum=1)
    report_back_attempts: int = _key(3, "Reports judged before a schema fails.", minimum=1)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    project_agent_policy: str = _key(
        "confirm",
        "Whether agents that a repository defines may run.",
        choices=("allow", "confirm", "deny"),
        project=ProjectRule.NEVER,
    )
    non_interactive_policy: str = _key(
        "allow",
        "What `confirm` means where nobody can be asked.",
        choices=("allow", "deny"),
        project=ProjectRule.NEVER,
    )
    trusted_projects: tuple[str, ...] = _key(
        (), "Repositories whose agents run unasked, and with network tools."
    )
    disabled: tuple[str, ...] = _key((), "Agents switched off.", project=ProjectRule.ADD)
    mask_tool_results: str = _key(
        "readonly",
        "Which children see their tools' results with secrets masked.",
        choices=("readonly", "always", "never"),
        project=ProjectRule.NEVER,
    )
    tools: tuple[str, ...] = _key(
        ("subagent",), "Tools a host offers.", choices=("subagent", "Task", "Explore")
    )


@dataclass(frozen=True, slots=True)
class FilesConfig:
    """What the file tools may reach."""

    allowed_roots: tuple[str, ...] = _key((), "Folders beside the working tree.")
    allow_credential_files: bool = _key(False, "Let tools open `.env`, private keys and the like.")


@dataclass(frozen=True, slots=True)
class ToolsConfig:
    """Tools that users bring."""

    modules: tuple[str, ...] = _key(
        (), "Python modules with tools of your own.", project=ProjectRule.NEVER
    )


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """How much of a child's output is taken in, and shown."""

    result_bytes: int = _key(204_800, "Bytes of the text a caller is shown.", minimum=1024)
    result_lines: int = _key(5_000, "Lines of the text a caller is shown.", minimum=10)
    stdout_bytes: int = _key(67_108_864, "Bytes of events from one child.", minimum=1024)
    stderr_bytes: int = _key(1_048_576, "Bytes of other text from one child.", minimum=1024)
    event_bytes: int = _key(8_388_608, "Bytes of one event.", minimum=1024)
    events: int = _key(100_000, "Events from one child, deltas not counted.", minimum=10)


@dataclass(frozen=True, slots=True)
class RunsConfig:
    """How long finished runs are kept. Not a repository's to change: lowering it would delete."""

    keep_days: int = _key(30, "Days a run is kept.", project=ProjectRule.NEVER)
    keep_bytes: int = _key(1_073_741_824, "Bytes all runs may take.", project=ProjectRule.NEVER)


@dataclass(frozen=True, slots=True)
class WarmConfig:
    """The warmed process that children are forked from."""

    keep_minutes: int = _key(
        10, "Minutes the warm process is kept for the next command; 0 for no such process."
    )


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, at its effective value."""

    model: str | None = _key(
        None, "The model, as `provider:name`.", kind=str, project=ProjectRule.NEVER
    )
    subagents: SubagentsConfig = field(default_factory=SubagentsConfig)
    files: FilesConfig = field(default_factory=FilesConfig)
    tools: ToolsConfig = field(default_factory=ToolsConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    runs: RunsConfig = field(default_factory=RunsConfig)
    warm: WarmConfig = field(default_factory=WarmConfig)


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its dotted name, where it stands in `Config`, and its rules."""

    name: str
    path: tuple[str, ...]
    default: Any
    kind: type
    doc: str
    minimum: float
    choices: tuple[str, ...]
    project: ProjectRule

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "OUTRIDER_" + "__".join(part.upper() for part in self.path)


def camel(name: str) -> str:
    """`idle_timeout_ms` as JSON writes it: `idleTimeoutMs`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _walk(section: Any, path: tuple[str, ...]) -> Iterator[Key]:
    for item in fields(section):
        value, here = getattr(section, item.name), (*path, item.name)
        if is_dataclass(value):
            yield from _walk(value, here)
        else:
            name = ".".join(camel(part) for part in here)
            yield Key(name=name, path=here, default=value, **item.metadata)


DEFAULTS = Config()
KEYS: dict[str, Key] = {key.name: key for key in _walk(DEFAULTS, ())}


class BadValue(ValueError):
    """A value that its key can't take; the message says what would do."""


def check(key: Key, value: object) -> Any:
    """Return `value` as `key` holds it, or raise `BadValue`."""
    if value is None and (key.default is None or key.name == "subagents.budget.maxTurns"):
        return None
    if key.kind is bool:
        if isinstance(value, bool):
            return value
        raise BadValue(f"{value!r} is not true or false")
    if key.kind is tuple:
        return _check_list(key, value)
    if key.kind is str:
        return _check_text(key, value)
    return _check_number(key, value)


def _check_list(key: Key, value: object) -> tuple[str, ...]:
    items = cast("list[object]", value) if isinstance(value, list | tuple) else None
    if items is None or not all(isinstance(item, str) and item for item in items):
        raise BadValue(f"{value!r} is not a list of names")
    names = tuple(str(item) for item in items)
    if key.choices and (unknown := [name for name in names if name not in key.choices]):
        raise BadValue(f"{unknown[0]!r} is not one of {', '.join(key.choices)}")
    return names


def _check_text(key: Key, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadValue(f"{value!r} is not a text")
    if key.choices and value not in key.choices:
        raise BadValue(f"{value!r} is not one of {', '.join(key.choices)}")
    return value


def _check_number(key: Key, value: object) -> float:
    whole = key.kind is int
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise BadValue(f"{value!r} is not a {'whole ' if whole else ''}number")
    # A not-a-number fails every comparison, so it is refused here too.
    if not key.minimum <= value <= 2**53:
        raise BadValue(f"{value!r} is not a number from {key.minimum:g} up")
    return value


def parse(key: Key, text: str) -> Any:
    """Return the value that a variable or flag gives as `text`, or raise `BadValue`."""
    text = text.strip()
    if key.kind is str:
        return check(key, text)
    if key.kind is tuple and not text.startswith("["):
        return check(key, [part.strip() for part in text.split(",") if part.strip()])
    from json import loads

    try:
        value = loads(text.lower() if key.kind is bool else text)
    except ValueError:
        value = text
    return check(key, value)


def narrowed(key: Key, current: Any, wanted: Any) -> Any:
    """Return what a repository's `wanted` makes of `current`, or raise `BadValue` if it loosens."""
    if key.project is ProjectRule.ADD:
        return tuple(dict.fromkeys((*current, *wanted)))
    if key.project is ProjectRule.LOWER:
        if key.kind is bool and wanted is False:
            return False
        if key.kind is tuple and set(wanted) <= set(current):
            return wanted
        if key.kind in (int, float) and wanted is not None:
            if current is None or wanted <= current:
                return wanted
            raise BadValue(f"{wanted:g} is more than the user's {current:g}")
    raise BadValue("a project's file can only switch off and lower")


class Origin(StrEnum):
    """Where a value came from; later ones win."""

    DEFAULT = "default"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place, by dotted key; `label` names the place to people."""

    origin: Origin
    label: str
    values: Mapping[str, object]

    @property
    def strict(self) -> bool:
        """Whether a bad value here ends the call instead of falling back with a warning."""
        return self.origin in (Origin.ENVIRONMENT, Origin.FLAG)


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective configuration, with where each value came from and what was ignored."""

    config: Config = DEFAULTS
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()


def flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted keys of a `config.json`; what is no section comes out as it is."""
    for name, value in tree.items():
        here = f"{prefix}{name}"
        is_section = here not in KEYS and any(key.startswith(f"{here}.") for key in KEYS)
        if is_section and isinstance(value, Mapping):
            yield from flatten(cast("Mapping[str, object]", value), f"{here}.")
        else:
            yield here, value


def unknown_key(name: str) -> str:
    """Return the complaint about a key that doesn't exist, with the nearest one that does."""
    last = {key.rsplit(".", 1)[-1]: key for key in KEYS}
    near = get_close_matches(name, KEYS, 1, 0.6) or [
        last[match] for match in get_close_matches(name.rsplit(".", 1)[-1], last, 1, 0.6)
    ]
    return f"unknown key {name}" + (f"; did you mean {near[0]}?" if near else "")


def merge(layers: Sequence[Layer]) -> Settings:
    """Return the settings that the layers add up to. Raises `BadValue` for a strict layer."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    warnings: list[str] = []
    for layer in layers:
        for name, raw in layer.values.items():
            try:
                values[name] = _applied(layer, name, raw, values)
            except BadValue as bad:
                problem = f"{layer.label}: {bad}"
                if layer.strict:
                    raise BadValue(problem) from None
                warnings.append(f"{problem} (ignored)")
            else:
                origins[name] = layer.label
    config = _with_values(DEFAULTS, {KEYS[name].path: value for name, value in values.items()})
    return Settings(config, origins, tuple(warnings))


def _applied(layer: Layer, name: str, raw: object, values: Mapping[str, Any]) -> Any:
    key = KEYS.get(name)
    if key is None:
        raise BadValue(unknown_key(name))
    try:
        value = parse(key, raw) if layer.strict and isinstance(raw, str) else check(key, raw)
        if layer.origin is Origin.PROJECT:
            value = narrowed(key, values.get(name, key.default), value)
    except BadValue as bad:
        raise BadValue(f"{name}: {bad}") from None
    return value


def _with_values(section: Any, values: Mapping[tuple[str, ...], Any]) -> Any:
    """Return a section of the configuration with the values at these paths below it."""
    below: dict[str, dict[tuple[str, ...], Any]] = {}
    for path, value in values.items():
        below.setdefault(path[0], {})[path[1:]] = value
    changes = {
        name: inner[()] if () in inner else _with_values(getattr(section, name), inner)
        for name, inner in below.items()
    }
    return replace(section, **changes)


def effective(config: Config) -> Iterator[tuple[Key, Any]]:
    """Yield every key with its value in `config`."""
    for key in KEYS.values():
        value: Any = config
        for part in key.path:
            value = getattr(value, part)
        yield key, value
