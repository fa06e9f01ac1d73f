"""Which actions of language servers an agent may use: no child can rename or change code."""

from collections.abc import Iterable, Sequence

from outrider.settings.keys import PRIVILEGED_LSP_ACTIONS, READ_ONLY_LSP_ACTIONS


def lsp_actions_in_reach(listed: Iterable[str], *, is_child: bool) -> tuple[str, ...]:
    """Return which listed `lsp` actions may be used; no child gets the privileged ones."""
    reach = READ_ONLY_LSP_ACTIONS if is_child else READ_ONLY_LSP_ACTIONS + PRIVILEGED_LSP_ACTIONS
    return tuple(action for action in listed if action in reach)


def why_no_lsp_action(action: str, allowed: Sequence[str]) -> str:
    """Return why an `lsp` action is refused, in words for the one who asked."""
    why = "subagents.allowedLspActions doesn't list it"
    if action in PRIVILEGED_LSP_ACTIONS:
        why = "it is never open to a child, and to others by lsp.tool.allowMutatingActions"
    return f"{action} is not allowed: {why}. Allowed: {', '.join(allowed)}"
