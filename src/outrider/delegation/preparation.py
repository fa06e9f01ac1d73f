"""From a request to a brief: guard, discover, permit. All that can be refused is refused here."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from outrider.agents.definitions import AgentDefinition
from outrider.agents.discovery import Discovery, discover
from outrider.agents.permissions import Permit, Trust, Verdict, is_trusted, may_run, permit
from outrider.delegation.environment import child_environment
from outrider.delegation.prompt import system_prompt
from outrider.delegation.request import (
    Request,
    check_depth,
    check_enabled,
    check_input,
    check_schema,
    invalid,
    working_directory,
)
from outrider.masking import Masker, secret_environment_values
from outrider.models.resolution import ModelChoice, choose_model
from outrider.protocol.brief import Brief, BudgetLimits
from outrider.protocol.catalogue import is_known
from outrider.protocol.data import ABSENT, Absent
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.settings.files import load_settings
from outrider.settings.keys import Config
from outrider.settings.places import home, project_root

Confirm = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A delegation that nothing stands in the way of any more; only its run id is missing."""

    request: Request
    config: Config
    definition: AgentDefinition
    permit: Permit
    choice: ModelChoice
    cwd: Path
    schema: Any | Absent
    environment: Mapping[str, str]
    masker: Masker
    warnings: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """The provider of the model, whose patience all children share."""
        return self.choice.model.partition(":")[0]

    def brief(self, run_id: str, spill: Path) -> Brief:
        """Return what the child is told."""
        config, retry = self.config, self.config.subagents.retry
        wants_report = self.schema is not ABSENT
        return Brief(
            run_id=run_id,
            agent=self.definition.name,
            system_prompt=system_prompt(self.definition, str(self.cwd), report_back=wants_report),
            task=self.request.task,
            model=self.choice.model,
            cwd=str(self.cwd),
            tools=self.permit.tools,
            lsp_actions=self.permit.lsp_actions,
            tool_modules=config.tools.modules,
            allowed_roots=config.files.allowed_roots,
            allow_credential_files=config.files.allow_credential_files,
            mask_tool_results=_masks(config.subagents.mask_tool_results, self.permit),
            output_schema=self.schema,
            report_back_attempts=config.subagents.report_back_attempts,
            timeout_ms=config.subagents.timeout_ms,
            spill_folder=str(spill),
            request_attempts=retry.max_attempts if retry.enabled else 1,
            budget=BudgetLimits(**asdict(config.subagents.budget)),
        )


def _masks(setting: str, given: Permit) -> bool:
    return setting == "always" or (setting == "readonly" and given.readonly)


def prepare(
    request: Request,
    *,
    env: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    confirm: Confirm | None = None,
) -> Prepared:
    """Return what is needed to start the child; raises `Refusal`.

    `confirm` asks the user whether a repository's agent may run; without it nobody can be asked.
    """
    cwd = working_directory(request.cwd)
    settings = load_settings(cwd, env, flags)
    config = settings.config
    check_enabled(config)
    check_depth(config, env)
    check_input(request)
    check_schema(request.output_schema)
    definition = request.definition or _find(request.agent, discover(cwd, env))
    root = project_root(cwd, env)
    trusted = is_trusted(root, config, home=home(env))
    _check_may_run(definition, config, trusted=trusted, confirm=confirm)
    choice = choose_model(
        flag=request.model, agent=definition.model, configured=config.model, env=env
    )
    if choice.problem:
        raise invalid(f"The model from the {choice.reason} can't be used: {choice.problem}")
    return Prepared(
        request=request,
        config=config,
        definition=definition,
        permit=permit(definition, config, Trust(trusted), own_tools(definition, config)),
        choice=choice,
        cwd=cwd,
        schema=_schema(request, definition),
        environment=child_environment(env, choice.environment(env)),
        masker=Masker(
            project=str(cwd), home=str(home(env)), secrets=secret_environment_values(env)
        ),
        warnings=settings.warnings,
    )


def _find(name: str, discovery: Discovery) -> AgentDefinition:
    definition = discovery.agents.get(name.strip())
    if definition is not None:
        return definition
    near = get_close_matches(name.strip(), discovery.agents, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    names = ", ".join(discovery.agents)
    faults = [note for note in discovery.diagnostics if note.severity == "error"]
    hint = "".join(f" Unusable: {note}." for note in faults[:3])
    raise Refusal(
        ErrorCode.UNKNOWN_AGENT,
        f"Unknown agent: {name.strip()}. Available agents: {names}.{meant}{hint}",
    )


def _check_may_run(
    definition: AgentDefinition, config: Config, *, trusted: bool, confirm: Confirm | None
) -> None:
    verdict, reason = may_run(definition, config, trusted=trusted, interactive=confirm is not None)
    if verdict is Verdict.ASK and confirm is not None and confirm(reason):
        return
    if verdict is not Verdict.RUN:
        refused = "was not confirmed" if verdict is Verdict.ASK else "may not run"
        raise Refusal(
            ErrorCode.SUBAGENT_DISABLED, f"The agent {definition.name} {refused}: {reason}."
        )


def own_tools(definition: AgentDefinition, config: Config) -> Mapping[str, bool]:
    """Return the user's own tools, each with whether it writes; looked for only where listed."""
    if all(is_known(name) for name in definition.tools or ()):
        return {}
    from outrider.tools.entry_points import load_tools

    tools, _ = load_tools(config.tools.modules)
    return {tool.name: tool.writes for tool in tools}


def _schema(request: Request, definition: AgentDefinition) -> Any | Absent:
    """Return the caller's schema, else the agent's own."""
    if request.output_schema is not ABSENT or definition.output_schema is None:
        return request.output_schema
    path = Path(definition.output_schema)
    try:
        # Opened without blocking: an agent file can name a pipe.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            schema: object = json.loads(file.read(1 << 20))
    except (OSError, ValueError, RecursionError) as error:
        raise invalid(
            f"The output_schema of {definition.name}, {path}, can't be used: {error}"
        ) from None
    check_schema(schema)
    return schema
