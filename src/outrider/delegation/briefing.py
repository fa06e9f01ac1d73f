"""What a child is told: its brief, and its environment."""

import os
import sys

from outrider.delegation.depth import current_depth, max_depth
from outrider.delegation.preparation import Prepared, system_prompt
from outrider.processes.hiding import hide_environment
from outrider.protocol.brief import (
    CHILD_VARIABLE,
    DEPTH_VARIABLE,
    MAX_DEPTH_VARIABLE,
    RUN_VARIABLE,
    Brief,
    BudgetLimits,
)
from outrider.protocol.data import to_json
from outrider.protocol.tool_catalogue import keys_of, reach_network, run_commands
from outrider.records.runs import LAYER, RunRecorder

MAX_TURN_MS = 86_400_000
"""The guardian's deadline for a main agent's turn. Its parent's is `subagents.timeoutMs`, in which
the time that the agent waits for a subagent or for the person doesn't count."""


def brief_for(prepared: Prepared, run: RunRecorder) -> Brief:
    config, permit, budget = prepared.config, prepared.permit, prepared.config.subagents.budget
    retry, masks = config.subagents.retry, config.subagents.mask_tool_results
    on_the_web = reach_network(permit.tools)
    return Brief(
        run_id=run.id,
        agent=prepared.definition.name,
        system_prompt=system_prompt(prepared),
        task=prepared.request.task,
        model=prepared.choice.model,
        wire=prepared.project.wire(prepared.choice),
        cwd=str(prepared.project.folder),
        tools=permit.tools,
        lsp_actions=permit.lsp_actions,
        tool_modules=config.tools.modules,
        tool_path=tuple(filter(os.path.isabs, sys.path)) if config.tools.modules else (),
        allowed_roots=config.files.allowed_roots,
        allow_credential_files=config.files.allow_credential_files,
        isolation=None if prepared.main_turn else permit.isolation,
        layer=str(run.folder / LAYER) if prepared.is_layered else None,
        layer_bytes=config.runs.keep_bytes,
        network=permit.network,
        check=prepared.check,
        check_attempts=config.subagents.check_attempts,
        mask_tool_results=masks == "always" or (masks == "readonly" and permit.readonly),
        output_schema=prepared.schema,
        report_back_attempts=config.subagents.report_back_attempts,
        timeout_ms=MAX_TURN_MS if prepared.main_turn else config.subagents.timeout_ms,
        spill_folder=run.spill,
        request_attempts=retry.max_attempts if retry.enabled else 1,
        budget=BudgetLimits(
            budget.max_turns, budget.max_tool_calls, budget.max_tokens, budget.max_cost
        ),
        web=to_json(config.web) if on_the_web else None,
        # Whoever fetches finds documents too.
        convert=to_json(config.convert) if on_the_web and config.convert.enabled else None,
        lsp=to_json(config.lsp) if permit.lsp_actions else None,
        trusted=prepared.project.trusted,
        state_folder=str(run.folder.parents[1]),
        history=prepared.history,
        main_turn=prepared.main_turn,
    )


def child_environment(prepared: Prepared, run_id: str) -> dict[str, str]:
    """Return what it has of the environment: the key of its own provider, and no other secret."""
    env = prepared.project.env
    keys = {key for tool in prepared.permit.tools for key in keys_of(tool) if key in env}
    depth = current_depth(env) + (prepared.main_turn is None)  # a main agent was not delegated to
    marks = (CHILD_VARIABLE, "PI_SUBAGENT_CHILD") if depth else ()
    return {
        **prepared.project.child_env,
        **{key: env[key] for key in keys},
        **prepared.choice.environment(env),
        **dict.fromkeys(marks, "1"),
        DEPTH_VARIABLE: str(depth),
        MAX_DEPTH_VARIABLE: str(max_depth(prepared.config, env)),
        RUN_VARIABLE: run_id,
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }


def hide_secrets(prepared: Prepared) -> None:
    """Keep our secrets from the commands of a child that runs any."""
    if run_commands(prepared.permit.tools):
        hide_environment(frozenset(prepared.project.plain_env))
