"""What a caller may say of a map beside the agent and the items."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict


class MapOptions(TypedDict, total=False):
    """The options of `outrider.map`; each can be left out."""

    output_schema: Any
    """The JSON Schema of the answers, where no `output_type` is given."""
    model: str | None
    cwd: str | None
    check: str | None
    """As in `subagent`, for all items that don't say otherwise."""
    config: Mapping[str, Any]
    concurrency: int | None
    max_cost: float | None
    max_tokens: int | None
    deadline: float | None
    """For all items together: US dollars, tokens, seconds."""
    retry: Iterable[str]
    """The recorded outcomes that don't count: such items are run again."""
    rerun_unfinished: bool
    """Run again what may have changed files when its map was interrupted."""
    on: str | None
    """`ray` for the cluster of RAY_ADDRESS or this machine, or the address `ray://host:10001`."""
    include: Iterable[str]
    """Globs for files that git ignores, and the nodes of a cluster get all the same."""
    stop_after: int | None
    """Start no more items after so many that didn't complete."""
    ordered: bool
