"""The tools of one child: those its brief names, in an executor that knows its limits."""

import logging
from collections.abc import Mapping
from pathlib import Path

from outrider.masking import Masker, secret_environment_values, without_secrets
from outrider.protocol.brief import Brief
from outrider.protocol.catalogue import is_own
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.loading import builtin_tools, load_tools

log = logging.getLogger("outrider")


def tool_executor(brief: Brief, cwd: Path, env: Mapping[str, str]) -> ToolExecutor:
    """Return the executor for a brief; its commands see none of the child's secrets."""
    available = {tool.name: tool for tool in builtin_tools()}
    wanted = set(brief.tools)
    if not all(is_own(name) for name in wanted):
        own, problems = load_tools(brief.tool_modules)
        available |= {tool.name: tool for tool in own}
        for problem in problems:
            log.warning(problem)
    secrets = secret_environment_values(env)
    context = ToolContext(
        cwd=cwd,
        allowed_roots=tuple(Path(root).expanduser() for root in brief.allowed_roots),
        allow_credential_files=brief.allow_credential_files,
        environment=without_secrets(env),
        mask=Masker(secrets=secrets, only_secrets=True) if brief.mask_tool_results else None,
        session_id=brief.run_id,
        spill=Path(brief.spill_folder) if brief.spill_folder else None,
    )
    return ToolExecutor(
        [available[name] for name in brief.tools if name in available],
        context,
        not_given=available.keys() - wanted,
    )
