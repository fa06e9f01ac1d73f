"""A folder's settings and agents are read once, and read again when a file changes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import open_project
from outrider.delegation import preparation, project
from outrider.delegation.perform import Caller, perform, perform_prepared
from outrider.delegation.request import Request

AGENT = "---\nname: {name}\ndescription: {description}\n---\nDo it.\n"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """The folders that were read, one entry for each time."""
    seen: list[Path] = []
    load = project.load_settings

    def counted(folder, env, flags=None):
        seen.append(folder)
        return load(folder, env, flags)

    monkeypatch.setattr(project, "load_settings", counted)
    monkeypatch.setattr(project, "SETTLED_SECONDS", -1)
    return seen


def test_a_folder_that_does_not_change_is_read_once(world: Path, reads: list[Path]) -> None:
    assert open_project().discovery == open_project().discovery
    (world / "unrelated.txt").write_text("x")
    open_project()
    assert len(reads) == 1


def test_a_change_of_the_last_seconds_is_never_taken_for_settled(
    world: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "SETTLED_SECONDS", 3600)
    (world / ".outrider/agents").mkdir(parents=True)
    open_project()
    open_project()
    assert len(reads) == 2


def test_a_new_a_changed_and_a_removed_agent_are_seen(world: Path, reads: list[Path]) -> None:
    assert "mine" not in open_project().discovery.agents
    folder = world / ".outrider/agents"
    folder.mkdir(parents=True)
    (folder / "mine.md").write_text(AGENT.format(name="mine", description="First."))
    assert open_project().discovery.agents["mine"].description == "First."
    (folder / "mine.md").write_text(AGENT.format(name="mine", description="Second."))
    assert open_project().discovery.agents["mine"].description == "Second."
    (folder / "mine.md").unlink()
    assert "mine" not in open_project().discovery.agents
    assert len(reads) == 4


def test_a_file_that_was_unusable_is_looked_at_again(world: Path, reads: list[Path]) -> None:
    folder = world / ".agents"
    folder.mkdir()
    (folder / "mine.md").write_text("no frontmatter")
    assert "mine" not in open_project().discovery.agents
    (folder / "mine.md").write_text(AGENT.format(name="mine", description="Now it works."))
    assert "mine" in open_project().discovery.agents


def test_settings_are_read_again_from_files_environment_and_flags(
    world: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_project().config.subagents.timeout_ms == 900_000
    (world / ".outrider").mkdir()
    (world / ".outrider/config.json").write_text('{"subagents": {"timeoutMs": 5000}}')
    assert open_project().config.subagents.timeout_ms == 5000
    assert open_project(flags={"subagents.timeoutMs": 7000}).config.subagents.timeout_ms == 7000
    monkeypatch.setenv("OUTRIDER_SUBAGENTS__TIMEOUT_MS", "6000")
    assert open_project().config.subagents.timeout_ms == 6000
    monkeypatch.delenv("OUTRIDER_SUBAGENTS__TIMEOUT_MS")
    assert open_project().config.subagents.timeout_ms == 5000


def test_trust_and_a_new_git_root_count_at_once(world: Path, reads: list[Path]) -> None:
    (world / ".outrider/agents").mkdir(parents=True)
    (world / ".outrider/agents/mine.md").write_text(AGENT.format(name="mine", description=""))
    below = world / "below"
    below.mkdir()
    assert "mine" in open_project(below).discovery.agents
    (below / ".git").mkdir()
    assert "mine" not in open_project(below).discovery.agents
    config = Path(os.environ["HOME"]) / ".config/outrider/config.json"
    config.parent.mkdir(parents=True)
    assert not open_project().trusted
    config.write_text(f'{{"subagents": {{"trustedProjects": ["{world}"]}}}}')
    assert open_project().trusted


def test_only_the_last_few_projects_are_kept(world: Path, reads: list[Path]) -> None:
    for number in range(2 * project.MAX_KEPT_PROJECTS):
        open_project(flags={"subagents.timeoutMs": 1000 + number})
    open_project(flags={"subagents.timeoutMs": 1000})
    assert len(reads) == 2 * project.MAX_KEPT_PROJECTS + 1


async def test_a_project_that_is_open_is_not_opened_again_for_a_delegation(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_project(world)

    def fail(*_: object) -> None:
        raise AssertionError("it was opened again")

    monkeypatch.setattr(preparation, "open_project", fail)
    request = Request("explorer", "Where is main?", model="embedded", cwd=world)
    prepared = await preparation.prepare(request, env=opened.env, project=opened)
    assert (await perform_prepared(prepared, Caller(opened.env))).completed


async def test_an_environment_that_its_owner_changes_later_is_read_again(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "SETTLED_SECONDS", -1)
    env, secret = dict(os.environ), "hunter2-and-some-very-long-secret-9f8e7d6c5b"
    request = Request("explorer", f"Where is {secret}?", model="embedded")
    await perform(request, Caller(env))
    env |= {"MY_SERVICE_TOKEN": secret, "OUTRIDER_SUBAGENTS__MAX_CONCURRENT": "3"}
    result = await perform(request, Caller(env))
    assert result.result is not None and secret not in result.result.task
    assert open_project(world, env).config.subagents.max_concurrent == 3


def test_many_projects_that_are_opened_at_once_are_one_probe_for_local_servers(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = []
    monkeypatch.setattr(project, "_probed", {})
    monkeypatch.setattr(project, "PROBED_SECONDS", 3_600)
    monkeypatch.setattr(project, "probe_local_servers", lambda *asked: probes.append(asked))
    for _ in range(3):
        assert open_project(world).choice().model == "embedded"
    assert len(probes) == 1
