"""`outrider.map`: one agent over many items, in Python."""

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.delegation.api import schema_of_type, value_of_type
from outrider.delegation.map.engine import Engine, MapRow
from outrider.delegation.map.items import given_values, items_of
from outrider.delegation.map.journal import journal_path
from outrider.delegation.map.mapping import Map, Plan
from outrider.delegation.perform import Caller
from outrider.protocol.errors import ErrorCode
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import ErrorInfo


class MapRows:
    """The rows of a map, as they come: the map runs while they are taken."""

    def __init__(self, work: Map, output_type: Any) -> None:
        self._work, self._output_type = work, output_type

    @property
    def stopped(self) -> str | None:
        """Why the map ended before its items did; None where it didn't."""
        return self._work.stopped

    async def __aiter__(self) -> AsyncIterator[MapRow]:
        async with aclosing(self._work.rows()) as rows:
            async for row in rows:
                yield self._typed(row)

    async def gather(self) -> list[MapRow]:
        """Return a row for each item, in order; those that it didn't get to are `not_run`."""
        self._work.plan, self._work.fills_gaps = replace(self._work.plan, ordered=True), True
        return [row async for row in self]

    def _typed(self, row: MapRow) -> MapRow:
        if self._output_type is None or not row.completed:
            return row
        try:
            return replace(row, output=value_of_type(self._output_type, row.structured_output))
        except ValueError as error:
            fault = ErrorInfo(ErrorCode.SUBAGENT_OUTPUT_INVALID, str(error))
            return replace(row, outcome=Outcome.SCHEMA_FAILED, error=fault)


def map(  # noqa: A001 - the word for it
    agent: str,
    items: Iterable[str | Mapping[str, Any]],
    *,
    task: str | None = None,
    output_type: Any = None,
    output_schema: Any = None,
    model: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    check: str | None = None,
    config: Mapping[str, object] | None = None,
    concurrency: int | None = None,
    max_cost: float | None = None,
    max_tokens: int | None = None,
    deadline: float | None = None,
    journal: str | os.PathLike[str] | None = None,
    retry: Sequence[str] = (),
    rerun_unfinished: bool = False,
    stop_after: int | None = None,
    ordered: bool = False,
    engine: Engine | None = None,
) -> MapRows:
    """Return the rows of running `agent` on each item; take them with `async for` or `gather`.

    An item is a text or a mapping, from whose fields `task` is filled: `"Review {path}"`. Without
    a `journal` the map can't go on after an interruption. `deadline` is in seconds.
    """
    schema = output_schema if output_type is None else schema_of_type(output_type)
    plan = Plan(
        agent, schema, model, cwd and os.fspath(cwd), check, dict(config or {}), concurrency,
        max_cost, max_tokens, deadline, frozenset(retry), rerun_unfinished, stop_after, ordered,
    )  # fmt: skip
    caller = Caller(os.environ)
    return MapRows(
        Map(
            plan,
            items_of(given_values(items), task),
            Path(journal) if journal else journal_path(caller.env),
            caller,
            engine,
            about={"agent": agent, "task": task},
        ),
        output_type,
    )
