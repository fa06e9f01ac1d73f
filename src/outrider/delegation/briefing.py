"""What a child is told: its brief."""

import os
import sys

from outrider.delegation.preparation import Prepared, system_prompt
from outrider.protocol.brief import Brief, BudgetLimits
from outrider.protocol.data import to_json
from outrider.protocol.tool_catalogue import reach_network
from outrider.records.runs import LAYER, RunRecorder

MAX_TURN_MS = 86_400_000
"""The guardian's deadline for a main agent's turn. Its parent's is `subagents.timeoutMs`, in which
the time that the agent waits for a subagent or for the person doesn't count."""


def brief_for(prepared: Prepared, run: RunRecorder) -> Brief:
    """Return all that the child is told."""
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
