"""Where things are found, and what a folder above the project can't do."""

import os
from pathlib import Path

import pytest

from outrider.settings import places

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def env(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def repository(path: Path) -> Path:
    (path / ".git").mkdir(parents=True)
    return path


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return path


def agents(folder: Path, name: str = "a.md") -> Path:
    touch(folder / name)
    return folder


def test_user_places_follow_home(home, env):
    assert places.home(env) == home
    assert places.user_config_file(env) == home / ".config/outrider/config.json"
    assert places.state_home(env) == home / ".local/state/outrider"
    assert places.runs_folder(env) == home / ".local/state/outrider/runs"
    assert places.user_agent_folders(env) == (
        home / ".config/outrider/agents",
        home / ".pi/agent/agents",
        home / ".claude/agents",
    )


def test_xdg_variables_move_configuration_and_state(home, env):
    env |= {"XDG_CONFIG_HOME": "/etc/me", "XDG_STATE_HOME": "/var/me"}
    assert places.user_config_file(env) == Path("/etc/me/outrider/config.json")
    assert places.user_agent_folders(env)[0] == Path("/etc/me/outrider/agents")
    assert places.user_agent_folders(env)[1] == home / ".pi/agent/agents"
    assert places.state_home(env) == Path("/var/me/outrider")


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_unusable_xdg_value_is_ignored(home, env, value):
    env |= {"XDG_CONFIG_HOME": value, "XDG_STATE_HOME": value}
    assert places.user_config_file(env) == home / ".config/outrider/config.json"
    assert places.state_home(env) == home / ".local/state/outrider"


def test_outrider_home_moves_runs_and_nothing_else(home, env):
    env |= {"OUTRIDER_HOME": "/srv/state", "XDG_STATE_HOME": "/var/me"}
    assert places.runs_folder(env) == Path("/srv/state/runs")
    assert places.user_config_file(env) == home / ".config/outrider/config.json"
    assert places.user_agent_folders(env)[0] == home / ".config/outrider/agents"


def test_relative_outrider_home_does_not_follow_a_later_change_of_folder(env):
    assert places.state_home(env | {"OUTRIDER_HOME": "state"}).is_absolute()


@pytest.mark.parametrize("env", [{}, {"HOME": ""}, {"HOME": "somewhere"}])
def test_without_a_usable_home_variable_the_account_decides(env):
    assert places.home(env).is_absolute()


def test_account_without_entry_still_has_a_home(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)
    assert places.home({}) == Path("/")


def test_git_root_is_the_nearest_one(tmp_path):
    outer = repository(tmp_path / "outer")
    inner = outer / "a/inner"
    inner.mkdir(parents=True)
    assert places.git_root(inner) == outer
    (inner / ".git").write_text("gitdir: elsewhere")
    assert places.git_root(inner) == inner


def test_git_root_of_a_folder_outside_any_or_missing_is_none(tmp_path):
    assert places.git_root(tmp_path) is None
    assert places.git_root(tmp_path / "missing") is None


def test_nearest_project_configuration_wins_up_to_the_git_root(tmp_path, env):
    root = repository(tmp_path / "repo")
    deep = root / "a/b"
    deep.mkdir(parents=True)
    touch(tmp_path / ".outrider/config.json")
    assert places.project_config_file(deep, env) is None
    top = touch(root / ".outrider/config.json")
    assert places.project_config_file(deep, env) == top
    near = touch(root / "a/.outrider/config.json")
    assert places.project_config_file(deep, env) == near


def test_without_git_a_folder_above_brings_in_no_settings(tmp_path, env):
    work = tmp_path / "work"
    work.mkdir()
    touch(tmp_path / ".outrider/config.json")
    assert places.project_config_file(work, env) is None
    assert places.project_root(work, env) == work
    own = touch(work / ".outrider/config.json")
    assert places.project_config_file(work, env) == own


def test_without_git_agents_are_found_above_and_make_the_project(tmp_path, env):
    deep = tmp_path / "team/a/b"
    deep.mkdir(parents=True)
    assert places.project_agent_folders(deep, env) == ()
    team = agents(tmp_path / "team/.claude/agents")
    agents(tmp_path / ".agents")
    assert places.project_agent_folders(deep, env) == (team,)
    assert places.project_root(deep, env) == tmp_path / "team"


def test_without_git_agents_are_not_looked_for_in_home_and_above(home, env):
    below = home / "code/thing"
    below.mkdir(parents=True)
    for folder in (home, home.parent):
        agents(folder / ".agents")
    assert places.project_agent_folders(below, env) == ()
    assert places.project_root(below, env) == below


@needs_root
def test_without_git_a_folder_of_another_user_ends_the_search_for_agents(tmp_path, env):
    work = tmp_path / "theirs/work"
    work.mkdir(parents=True)
    agents(tmp_path / ".agents")
    assert places.project_agent_folders(work, env) == (tmp_path / ".agents",)
    os.chown(work.parent, 4321, 4321)
    assert places.project_agent_folders(work, env) == ()


def test_home_itself_is_never_a_project(home, env):
    repository(home)
    touch(home / ".outrider/config.json")
    agents(home / ".claude/agents")
    below = home / "code/thing"
    below.mkdir(parents=True)
    for cwd in (home, below):
        assert places.project_config_file(cwd, env) is None
        assert places.project_agent_folders(cwd, env) == ()
    assert places.project_root(home, env) is None
    assert places.project_root(below, env) == home / "code"


def test_home_reached_through_a_symlink_is_still_home(tmp_path, home):
    touch(home / ".outrider/config.json")
    alias = tmp_path / "alias"
    alias.symlink_to(home)
    assert places.project_config_file(home, {"HOME": str(alias)}) is None
    assert places.project_config_file(alias, {"HOME": str(home)}) is None


def test_all_agent_folders_of_the_first_level_that_has_any(tmp_path, env):
    root = repository(tmp_path / "repo")
    deep = root / "a/b"
    for folder in (root / ".claude/agents", root / "a/.agents", root / "a/.outrider/agents", deep):
        agents(folder)
    assert places.project_agent_folders(deep, env) == (
        root / "a/.outrider/agents",
        root / "a/.agents",
    )


def test_a_folder_without_agent_files_hides_none_above_it(tmp_path, env):
    root = repository(tmp_path / "repo")
    near = root / "a/.claude/agents"
    touch(near / "notes.txt")
    top = agents(root / ".agents", "a.markdown")
    assert places.project_agent_folders(root / "a", env) == (top,)
    agents(near)
    assert places.project_agent_folders(root / "a", env) == (near,)


def test_agent_folders_keep_their_order(tmp_path, env):
    names = (".outrider/agents", ".pi/agents", ".agents", ".claude/agents")
    for name in reversed(names):
        agents(tmp_path / name)
    assert places.project_agent_folders(tmp_path, env) == tuple(tmp_path / name for name in names)


def test_plain_agents_folder_and_a_file_of_the_right_name_are_nothing_special(tmp_path, env):
    (tmp_path / "agents").mkdir()
    touch(tmp_path / ".agents")
    (tmp_path / ".outrider/config.json").mkdir(parents=True)
    assert places.project_agent_folders(tmp_path, env) == ()
    # Whatever it is: whoever reads it says what is wrong with it.
    assert places.project_config_file(tmp_path, env) == tmp_path / ".outrider/config.json"


def test_loop_of_symlinks_does_not_raise(tmp_path, env):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    (tmp_path / ".agents").symlink_to(tmp_path / ".agents")
    assert places.git_root(loop) is None
    assert places.project_agent_folders(tmp_path, env) == ()
    assert places.project_config_file(loop, env) is None


@needs_root
def test_repository_planted_above_by_another_user_opens_nothing(tmp_path, env):
    shared = repository(tmp_path / "shared")
    work = shared / "work"
    work.mkdir()
    touch(shared / ".outrider/config.json")
    agents(shared / ".agents")
    assert places.git_root(work) == shared
    for path in (shared / ".git", shared / ".agents", shared / ".outrider/config.json"):
        os.chown(path, 4321, 4321)
    assert places.git_root(work) is None
    assert places.project_agent_folders(work, env) == ()
    assert places.project_agent_folders(shared, env) == ()
    assert places.project_config_file(shared, env) is None


@needs_root
def test_checkout_of_another_account_works_from_its_subfolders(tmp_path, env):
    root = repository(tmp_path / "repo")
    work = root / "work"
    work.mkdir()
    agents(root / ".agents")
    for path in (root, root / ".git", root / ".agents", work):
        os.chown(path, 4321, 4321)
    assert places.project_agent_folders(work, env) == (root / ".agents",)
