"""Which agents are found, who wins, and what a broken or hostile folder can't do."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from outrider.agents.discovery import (
    BUILTIN_AGENTS,
    CODER,
    MAX_FILE_BYTES,
    MAX_FILES,
    builtin_agent,
    builtin_agents,
    discover,
)

TEMPLATES = {
    "explorer": ("Findings", "Key files", "How it fits", "Open questions"),
    "researcher": ("Answer", "Sources"),
    "reviewer": ("Verdict", "Findings"),
    "implementer": ("Plan", "Steps", "Files", "Risks"),
    CODER: ("Done", "Files", "Checked", "Open"),
    "tester": ("Strategy", "Cases", "Edge cases", "Coverage"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    (path / ".git").mkdir(parents=True)
    return path


@pytest.fixture
def found(home, project):
    return lambda cwd=project: discover(cwd, {"HOME": str(home)})


def write(folder: Path, file: str = "a.md", name: str = "a", more: str = "", body: str = "Do."):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    path.write_text(f"---\nname: {name}\n{more}\n---\n{body}\n")
    return path


def test_builtin_agents_are_there_and_nothing_else(found):
    discovery = found()
    assert list(discovery.agents) == sorted(BUILTIN_AGENTS)
    assert discovery.diagnostics == ()
    assert discovery.shadowed == ()


@pytest.mark.parametrize("agent", builtin_agents(), ids=lambda agent: agent.name)
def test_builtin_agent_is_readonly_with_its_template_and_its_limits(agent):
    assert agent.readonly is (agent.name != CODER) and not agent.disabled
    assert agent.model is None and agent.output_schema is None
    for heading in TEMPLATES[agent.name]:
        assert f"\n## {heading}\n" in agent.system_prompt
    assert 150 <= len(agent.system_prompt.split()) <= 300
    assert "nobody else" in agent.system_prompt


def test_builtin_agents_declare_their_tools():
    code = ("read", "grep", "find", "ls", "lsp")
    web = ("web_search", "fetch_content", "get_search_content", "convert_content")
    declared = {agent.name: agent.tools for agent in builtin_agents()}
    changes = (*code, "git")
    writes = (*changes, "write", "edit", "bash")
    others = {"researcher": web, "reviewer": changes, "tester": changes, CODER: writes}
    assert declared == {name: others.get(name, code) for name in BUILTIN_AGENTS}


def test_files_that_end_in_markdown_are_agents_too(found, project):
    write(project / ".agents", "a.markdown")
    assert found().agents["a"].path.endswith("a.markdown")


def test_general_agent_is_not_listed(found):
    assert builtin_agent("general").name == "general"
    assert not builtin_agent("general").readonly
    assert "general" not in found().agents


def test_project_wins_over_user_over_builtin(found, home, project):
    write(home / ".config/outrider/agents", name="explorer", body="user")
    assert found().agents["explorer"].system_prompt == "user"
    write(project / ".agents", name="explorer", body="project")
    discovery = found()
    assert discovery.agents["explorer"].system_prompt == "project"
    assert discovery.agents["explorer"].source == "project"
    assert [lost.source for lost in discovery.shadowed] == ["user", "builtin"]


def test_earlier_folder_wins_within_a_level(found, home, project):
    for index, folder in enumerate(
        (".config/outrider/agents", ".pi/agent/agents", ".claude/agents")
    ):
        write(home / folder, name="mine", body=f"user {index}")
    for index, folder in enumerate((".outrider/agents", ".pi/agents", ".agents", ".claude/agents")):
        write(project / folder, name="ours", body=f"project {index}")
    agents = found().agents
    assert agents["mine"].system_prompt == "user 0"
    assert agents["ours"].system_prompt == "project 0"


def test_agents_come_from_the_nearest_level_alone(found, project):
    write(project / ".agents", name="top")
    write(project / "sub/.claude/agents", name="near")
    agents = found(project / "sub").agents
    assert "near" in agents and "top" not in agents


def test_agents_folder_of_a_repository_is_nothing_special(found, project):
    write(project / "agents", name="explorer", body="hijacked")
    write(project / "agents", "b.md", name="other")
    assert list(found().agents) == sorted(BUILTIN_AGENTS)
    assert "hijacked" not in found().agents["explorer"].system_prompt


@pytest.mark.parametrize("switch", ["readonly", "disabled"])
def test_repository_can_not_free_what_the_user_bound(found, home, project, switch):
    write(home / ".claude/agents", more=f"{switch}: true")
    write(project / ".agents", more=f"{switch}: false")
    discovery = found()
    assert getattr(discovery.agents["a"], switch)
    assert discovery.agents["a"].source == "project"
    assert "readonly and disabled in " in discovery.diagnostics[0].message


def test_second_file_of_a_name_in_one_folder_is_named(found, project):
    write(project / ".agents", "one.md", body="first")
    second = write(project / ".agents", "two.md", body="second")
    discovery = found()
    assert discovery.agents["a"].system_prompt == "first"
    assert discovery.diagnostics[0].path == str(second)
    assert "already defined in one.md" in discovery.diagnostics[0].message
    assert discovery.shadowed[0].system_prompt == "second"


def fault_of(found, path: Path) -> str:
    discovery = found()
    assert "a" not in discovery.agents
    faults = [note for note in discovery.diagnostics if note.path == str(path)]
    assert [fault.severity for fault in faults] == ["error"]
    return faults[0].message


def test_oversized_file_is_refused(found, project):
    path = write(project / ".agents", body="x" * MAX_FILE_BYTES)
    assert "larger than 256 KiB" in fault_of(found, path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [(b"---\nname: \xff\n---\n", "not UTF-8 (byte 10)"), (b"---\nname: a\n---\n\0", "NUL byte")],
)
def test_binary_file_is_refused(found, project, content, fault):
    path = write(project / ".agents")
    path.write_bytes(content)
    assert fault in fault_of(found, path)


@pytest.mark.parametrize(
    ("make", "fault"),
    [(Path.mkdir, "can't be read: Is a directory"), (os.mkfifo, "not a regular file")],
    ids=["folder", "pipe"],
)
def test_folder_or_pipe_named_like_an_agent_is_refused_at_once(found, project, make, fault):
    (project / ".agents").mkdir()
    path = project / ".agents/a.md"
    make(path)
    assert fault in fault_of(found, path)


@pytest.mark.parametrize("target", ["a.md", "missing"])
def test_symlink_to_itself_or_to_nothing_is_refused(found, project, target):
    (project / ".agents").mkdir()
    path = project / ".agents/a.md"
    path.symlink_to(target)
    assert "can't be read" in fault_of(found, path)


def test_unreadable_file_is_refused(home):
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path: only root can enter that
        Path(folder).chmod(0o755)
        (Path(folder) / ".git").mkdir()
        path = write(Path(folder) / ".agents")
        path.chmod(0)
        with without_root():
            discovery = discover(Path(folder), {"HOME": str(home)})
    [fault] = [note.message for note in discovery.diagnostics if note.path == str(path)]
    assert "can't be read: Permission denied" in fault


@contextmanager
def without_root():
    """Root reads everything, so it steps down meanwhile."""
    if os.getuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_project_file_that_leads_outside_is_not_read(found, home, project):
    (project / ".agents").mkdir()
    outside = write(home / "elsewhere")
    path = project / ".agents/a.md"
    path.symlink_to(outside)
    assert "leads outside the project" in fault_of(found, path)


def test_project_folder_that_leads_outside_is_not_read(found, home, project):
    write(home / "elsewhere")
    (project / ".agents").symlink_to(home / "elsewhere")
    assert "leads outside the project" in fault_of(found, project / ".agents/a.md")


def test_symlink_within_the_project_and_the_users_own_are_followed(found, home, project):
    (project / ".agents").mkdir()
    (home / ".claude/agents").mkdir(parents=True)
    (project / ".agents/a.md").symlink_to(write(project / "prompts"))
    (home / ".claude/agents/b.md").symlink_to(write(home / "dotfiles", name="b"))
    assert {"a", "b"} <= set(found().agents)


@pytest.mark.parametrize("name", ["bad\x1b.md", "line\n.md", os.fsdecode(b"\xff.md")])
def test_file_name_that_could_steer_a_terminal_is_refused(found, project, name):
    write(project / ".agents", name)
    discovery = found()
    assert "a" not in discovery.agents
    assert discovery.diagnostics[0].message == "its file name has unprintable characters"
    assert discovery.diagnostics[0].path.isprintable()


def test_only_markdown_files_are_agents(found, project):
    write(project / ".agents", "a.txt")
    write(project / ".agents/nested", "a.md")
    assert list(found().agents) == sorted(BUILTIN_AGENTS)
    assert found().diagnostics == ()


def test_flood_of_files_is_bounded_and_said(found, project):
    for number in range(MAX_FILES + 5):
        write(project / ".agents", f"{number:04}.md", name=f"a{number:04}")
    discovery = found()
    assert len(discovery.agents) == MAX_FILES + len(BUILTIN_AGENTS)
    assert "only the first 500 by name" in discovery.diagnostics[0].message


def test_agent_folder_that_is_a_file_is_named(found, home):
    (home / ".claude").mkdir()
    (home / ".claude/agents").write_text("")
    assert "can't read the folder" in found().diagnostics[0].message


def test_broken_file_leaves_the_agent_below_in_place(found, project):
    path = write(project / ".agents", name="explorer")
    path.write_text("---\nname: explorer\n")
    discovery = found()
    assert discovery.agents["explorer"].source == "builtin"
    assert discovery.diagnostics[0].line == 1


def test_schema_of_an_agent_is_found_beside_it(found, project):
    write(project / ".agents", more="output_schema: shapes/a.json")
    (project / ".agents/shapes").mkdir()
    schema = project / ".agents/shapes/a.json"
    schema.write_text("{}")
    assert found().agents["a"].output_schema == str(schema)


@pytest.mark.parametrize("written", ["../../secret.json", "/etc/passwd", "link.json"])
def test_schema_that_leads_out_of_the_project_is_refused(found, project, written):
    (project.parent / "secret.json").write_text("{}")
    path = write(project / ".agents", more=f"output_schema: {written}")
    (project / ".agents/link.json").symlink_to(project.parent / "secret.json")
    assert "output_schema leads outside the project" in fault_of(found, path)


def test_schema_that_is_not_there_is_refused(found, home):
    path = write(home / ".claude/agents", more="output_schema: none.json")
    assert "output_schema isn't a file" in fault_of(found, path)


def test_users_schema_may_be_anywhere(found, home, tmp_path):
    (tmp_path / "s.json").write_text("{}")
    write(home / ".claude/agents", more=f"output_schema: {tmp_path}/s.json")
    assert found().agents["a"].output_schema == f"{tmp_path}/s.json"


def test_missing_working_directory_still_has_the_builtin_agents(found, project):
    assert list(found(project / "missing").agents) == sorted(BUILTIN_AGENTS)
