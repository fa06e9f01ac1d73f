"""Where things are: a folder that the user doesn't control can't add agents or settings.

The search goes up from the working directory to the git root. Without git, settings count in the
working directory only, and agents up to the first folder that isn't the user's own. HOME and the
folders above it never count. A folder counts only if it belongs to the user or to the owner of the
working directory: another user's `/tmp/.git` has no effect.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

_PROJECT_CONFIG = ".outrider/config.json"
_PROJECT_AGENTS = (".outrider/agents", ".pi/agents", ".agents", ".claude/agents")
AGENT_FILES = (".md", ".markdown")


def home(env: Mapping[str, str]) -> Path:
    if os.path.isabs(named := env.get("HOME", "")):
        return Path(named)
    import pwd

    with suppress(KeyError):  # an account without an entry, as containers have
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    return Path("/")


def _xdg(env: Mapping[str, str], variable: str, default: str) -> Path:
    # The XDG specification says to ignore a relative path in such a variable.
    named = env.get(variable, "")
    base = Path(named) if os.path.isabs(named) else home(env) / default
    return base / "outrider"


def user_config_file(env: Mapping[str, str]) -> Path:
    return _xdg(env, "XDG_CONFIG_HOME", ".config") / "config.json"


def state_home(env: Mapping[str, str]) -> Path:
    """Return the folder of runs, logs and caches."""
    if named := env.get("OUTRIDER_HOME", ""):
        return Path(named).absolute()
    return _xdg(env, "XDG_STATE_HOME", ".local/state")


def runs_folder(env: Mapping[str, str]) -> Path:
    return state_home(env) / "runs"


def user_agent_folders(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of the user's agents; they may not exist; earlier wins."""
    config, own_home = _xdg(env, "XDG_CONFIG_HOME", ".config"), home(env)
    return config / "agents", own_home / ".pi/agent/agents", own_home / ".claude/agents"


def git_root(cwd: Path) -> Path | None:
    """Return the root of the git working tree that `cwd` is in, or None."""
    here = _real(cwd)
    owners = _owners(here)
    for folder in (here, *here.parents):
        if not _belongs(folder, owners):
            return None
        if _belongs(folder / ".git", owners):
            return folder
    return None


def project_levels(cwd: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that can hold project files, from the working directory up."""
    here, user_home = _real(cwd), _real(home(env))
    if here == user_home:
        return ()
    root = git_root(here)
    levels = [here]
    while root is not None and levels[-1] != root and levels[-1].parent != user_home:
        levels.append(levels[-1].parent)
    return tuple(levels)


def agent_levels(cwd: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that can hold a project's agents, from the working directory up."""
    levels, user_home = project_levels(cwd, env), _real(home(env))
    if not levels or git_root(cwd) is not None:
        return levels
    owners = _owners(cwd)
    above = takewhile(lambda one: one != user_home and _belongs(one, owners), levels[0].parents)
    return (*levels, *above)


def project_root(cwd: Path, env: Mapping[str, str]) -> Path | None:
    """Return the top folder of the project (without git, the one with its agents); None in HOME."""
    if git_root(cwd) is None:
        for folder in project_agent_folders(cwd, env)[:1]:
            return next(one for one in agent_levels(cwd, env) if folder.is_relative_to(one))
    return next(reversed(project_levels(cwd, env)), None)


def project_name(folder: Path, env: Mapping[str, str]) -> str:
    """Return how records name the project of `folder`: by its path, from `~` on where it can be."""
    root, own_home = project_root(folder, env) or folder, home(env)
    inside = root != own_home and root.is_relative_to(own_home)
    return f"~/{root.relative_to(own_home)}" if inside else str(root)


def project_files(level: Path) -> tuple[Path, ...]:
    """Return the files and folders of a level that can hold settings or agents."""
    return (level / _PROJECT_CONFIG, *(level / name for name in _PROJECT_AGENTS))


def project_config_file(cwd: Path, env: Mapping[str, str]) -> Path | None:
    """Return the nearest `.outrider/config.json` of the project, or None."""
    owners = _owners(cwd)
    for level in project_levels(cwd, env):
        path = level / _PROJECT_CONFIG
        if _belongs(path, owners):
            return path
    return None


def project_agent_folders(cwd: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the agent folders at the nearest level that has an agent file; earlier wins."""
    owners = _owners(cwd)
    for level in agent_levels(cwd, env):
        folders = [level / name for name in _PROJECT_AGENTS if os.path.isdir(level / name)]
        found = tuple(folder for folder in folders if _belongs(folder, owners))
        if any(map(_may_have_agents, found)):
            return found
    return ()


def _may_have_agents(folder: Path) -> bool:
    with suppress(OSError):  # whoever reads it says why it can't be read
        return any(name.endswith(AGENT_FILES) for name in os.listdir(folder))
    return True


def _real(path: Path) -> Path:
    # Unlike Path.resolve, realpath doesn't raise on a loop of symlinks.
    return Path(os.path.realpath(path))


def _owners(cwd: Path) -> frozenset[int]:
    with suppress(OSError):
        return frozenset({os.getuid(), os.stat(cwd).st_uid})
    return frozenset({os.getuid()})


def _belongs(path: Path, owners: frozenset[int]) -> bool:
    with suppress(OSError):
        return os.stat(path).st_uid in owners
    return False
