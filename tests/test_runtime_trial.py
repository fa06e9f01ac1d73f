"""What `doctor` finds out about this machine: a small delegation."""

import sys
from pathlib import Path

import pytest

from outrider.delegation.trial import try_delegation
from outrider.models.known_providers import EMBEDDED
from outrider.protocol.envelope import ToolFault
from outrider.testing import ScriptedModel, answer


def test_a_small_task_is_done_apart_from_the_users_runs(world: Path) -> None:
    milliseconds, missing = try_delegation(EMBEDDED)
    assert milliseconds > 0 and (not missing or sys.platform != "linux")
    assert not (world.parent / "state").exists()


def test_a_model_that_fails_is_told_with_its_reason(world: Path) -> None:
    with ScriptedModel([answer("")]) as server, pytest.raises(ToolFault, match="small task failed"):
        try_delegation(server.model, **server.environment)
