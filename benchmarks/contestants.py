"""The contestants: how the driver of each is started, and how much it can be given."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import environments
from benchmarks.environments import NotInstalled

PASSED = ("PATH", "LANG", "LC_ALL", "TZ")


@dataclass(frozen=True)
class Contestant:
    """One way to delegate a task."""

    name: str
    """Its name in the tables."""
    module: str
    python: Callable[[], str]
    arguments: tuple[str, ...] = ()
    isolated: bool = False
    """Whether each task has a process of its own."""
    install: Callable[[], None] = lambda: None
    environment: Mapping[str, str] = field(default_factory=dict)
    most_at_once: int = 1_000
    child_mb: int = 1
    """A rough estimate, so that no measurement needs more memory than the machine has."""
    child_s: float = 0.02
    """A rough estimate of how long a child takes to ask the model."""
    queued: bool = False
    """Whether it keeps its own limit of children at a time instead of running all at once."""

    def command(self) -> list[str]:
        """Return the command of its driver; raises `NotInstalled`."""
        self.install()
        return [self.python(), "-m", f"benchmarks.peers.{self.module}", *self.arguments]


def _python_peer(name: str, **options) -> Contestant:
    module = name.replace("-", "_")
    return Contestant(name, module, lambda: environments.peer_python(name), **options)


def _outrider(mode: str, label: str, **options) -> Contestant:
    return Contestant(
        label, "outrider", environments.outrider_python, (mode,), isolated=True, **options
    )


def _pi(
    mode: str, label: str, packages: tuple[str, ...] = ("pi",), module: str = "pi", **options
) -> Contestant:
    def install() -> None:
        for package in packages:
            environments.install_node_packages(package)

    variables = {
        "BENCH_NODE": str(environments.NODE),
        "BENCH_PI": str(environments.PI),
        "BENCH_PI_SUBAGENTS": str(environments.PI_SUBAGENTS),
        "BENCH_VERSION": environments.NODE_PACKAGES[packages[-1]][0].rpartition("@")[2],
        "PI_OFFLINE": "1",
    }
    settings = {"most_at_once": 10, "child_mb": 130, "child_s": 0.7}
    return Contestant(
        label,
        module,
        environments.outrider_python,
        (mode,),
        isolated=True,
        install=install,
        environment=variables,
        **{**settings, **options},
    )


WARM = "outrider warm"
OPEN = "outrider warm, no walls"
SDK = "outrider warm, wire: sdk"
ANTHROPIC = "outrider warm, Anthropic"
COLD = "outrider cold"
COLD_ANTHROPIC = "outrider cold, Anthropic"
RUN = "outrider run"
PI = "pi -p"
PI_CHILD = "pi as a child"
PI_SUBAGENTS = "pi-subagents"
IN_PI = "outrider in pi"
HARNESS = "pydantic-ai-harness"
DEEPAGENTS = "deepagents"

CONTESTANTS: dict[str, Contestant] = {
    contestant.name: contestant
    for contestant in (
        _outrider("warm", WARM, child_mb=8, child_s=0.03),
        _outrider("open", OPEN, child_mb=8, child_s=0.03),
        _outrider("sdk", SDK, child_mb=15, child_s=0.06),
        _outrider("anthropic", ANTHROPIC, child_mb=25, child_s=0.1),
        _outrider("cold", COLD, most_at_once=10, child_mb=90, child_s=1, queued=True),
        _outrider("cold-anthropic", COLD_ANTHROPIC, most_at_once=1, child_mb=150, child_s=3),
        _outrider("run", RUN, most_at_once=10, child_mb=40, child_s=0.3),
        _pi("print", PI),
        _pi("child", PI_CHILD),
        _pi("pi", IN_PI, module="outrider"),
        _pi("subagents", PI_SUBAGENTS, ("pi", "pi-subagents"), most_at_once=1, child_s=2.5),
        _python_peer(HARNESS),
        _python_peer(DEEPAGENTS),
        _python_peer("openai-agents"),
        _python_peer("smolagents"),
    )
}
TRACING_OFF = {
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def driver_environment(contestant: Contestant, home: Path, url: str) -> dict[str, str]:
    """Return the complete environment of a driver: its own home, and the scripted model."""
    project = home / "project"
    runtime = home / "run"
    project.mkdir(parents=True, exist_ok=True)
    runtime.mkdir(mode=0o700, exist_ok=True)
    (home / "tmp").mkdir(exist_ok=True)
    (project / "note.txt").write_text("The note says: all is well.\n")
    return {
        **{name: os.environ[name] for name in PASSED if name in os.environ},
        **TRACING_OFF,
        **contestant.environment,
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "XDG_RUNTIME_DIR": str(runtime),
        "OUTRIDER_HOME": str(home / "state"),
        "BENCH_PROJECT": str(project),
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "none-of-your-keys",
        "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "none-of-your-keys",
    }


def installed(names: Iterable[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the commands of those that could be installed, and why the others could not."""
    commands: dict[str, list[str]] = {}
    problems: dict[str, str] = {}
    for name in names:
        try:
            commands[name] = CONTESTANTS[name].command()
        except NotInstalled as problem:
            problems[name] = f"not installed: {problem}"
    return commands, problems
