"""What tests share: a world of their own, with no setting, key or run of the machine's in it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest
from hypothesis import HealthCheck, settings

from outrider.processes import keeper_link
from outrider.processes.reaping import is_ending
from outrider.runtimes.native import fork_client
from outrider.runtimes.native.fork_client import UserForkServer, hosted_fork_server
from outrider.testing import ModelRequest, Reply, ScriptedModel, answer, tool_call

SECRET_FREE = ("PATH", "LANG", "LC_ALL", "TZ", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")

COLD = {"OUTRIDER_WARM__KEEP_MINUTES": "0"}
"""The setting for a host that delegates once: it doesn't warm up a fork server for nothing."""

MAY_WRITE = {
    "subagents.allowWrite": True,
    "subagents.isolation": "none",
    "subagents.trustedProjects": ["/"],
}
"""Settings under which the agents that a test's project defines get their writing tools, in place:
what a layer does has tests of its own."""


# Ignored in a shell's background or under nohup, and then also in all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes depends on what else the machine does.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


# As it is before a test changes it: a program, a proxy or a registry of the machine's own counts.
ENVIRONMENT = dict(os.environ)
MEASURING = {name: value for name, value in ENVIRONMENT.items() if name.startswith("COVERAGE_")}
"""The variables by which coverage measures a process that a test starts."""
MEASURED_KEEPER = f"""
import os, sys
os.environ.update({MEASURING!r})
import coverage
coverage.process_startup()
for name in {[*MEASURING]!r}:
    del os.environ[name]
sys.path.append(sys.argv.pop(1))
from outrider.processes.keeper import main
main()
"""
"""A keeper as our own, which starts without coverage, but measured."""
TIERS = ("quick", "python", "all")
SLOW = (
    "activity", "adversity", "agent_names", "ask", "benchmarks", "catalogue", "cells", "chat",
    "cli_bad_calls", "cli_completion", "cli_doctor", "cli_listings", "cli_lsp", "cli_signals",
    "cli_terminal", "cli_web", "docs", "documents", "endings", "file_tools_bad_arguments",
    "find_about", "find_newcomers", "fork_server", "hostile_masking", "isolation", "landing_faults",
    "local_models", "lsp_child", "lsp_faults", "lsp_servers", "mcp", "mcp_install", "pi",
    "pi_host", "recipes", "report_back_verdicts", "surroundings", "tools_handed_over", "web_fetch",
    "wires_answers", "wires_broken", "wires_captured", "wires_parts", "wires_statuses",
    "writer_surfaces", "writers",
    "background", "background_writers", "dev", "map", "map_faults", "mcp_background",
    "model_tools", "newcomer_names", "page", "page_live", "ray", "resume", "run_handles",
    "telemetry", "tell", "view", "view_attacks", "watch",
)  # fmt: skip
"""What `--tier quick` leaves out: files whose tests start one command, host or server after the
other, or try many examples. What is left runs in this process, but for three doors: the command
(`cli_run`), MCP (`mcp_wire`), and Python with real children (`report_back`).
"""
_tier: str | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the tier that `dev` runs; without one, all runs that can run here."""
    parser.addoption("--tier", choices=TIERS)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the tier for `needs`, and measure also what starts in an environment of its own."""
    global _tier
    _tier = config.getoption("tier")
    if MEASURING:
        fork_client.PLAIN_VARIABLES = (*fork_client.PLAIN_VARIABLES, *MEASURING)
        _, *_, sources = keeper_link.small_python("keeper")
        measured = (sys.executable, "-c", MEASURED_KEEPER, sources)
        keeper_link.small_python = lambda _module: measured


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what is slow where only a quick answer is wanted."""
    return True if _tier == "quick" and collection_path.stem[5:] in SLOW else None


def needs(program: str) -> str:
    """Return where a program is that pip doesn't install; skips the test where it isn't there.

    The tiers before `all` go without such programs everywhere, and so take as long everywhere.
    """
    found = shutil.which(program, path=ENVIRONMENT.get("PATH"))
    if found is None:
        pytest.skip(f"{program} isn't installed")
    if _tier in ("quick", "python"):
        pytest.skip(f"left to .ci/run, as it needs {program}")
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In the last tier a skipped test is a failed one: what it needs has to be installed there."""
    report = yield
    if report.skipped and _tier == "all":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which CI doesn't allow: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def warm_runtime() -> Iterator[Path]:
    """A runtime folder with a fork server in it, which the commands of many tests share."""
    with tempfile.TemporaryDirectory(prefix="or") as folder:
        env = {"PATH": os.environ["PATH"], "HOME": folder, "XDG_RUNTIME_DIR": folder}
        server = UserForkServer(env, minutes=0)
        with ScriptedModel([answer("Here.")]) as model:
            command = [sys.executable, "-m", "outrider", "run", "explorer", "Where?"]
            command += ["--model", model.model]
            subprocess.run(command, env=env | model.environment, cwd=folder, capture_output=True)
        wait_until(server.status, "the fork server")
        yield Path(folder)
        server.stop()


@pytest.fixture
def cold(world: Path) -> None:
    """Children in an interpreter of their own."""
    os.environ.update(COLD)


@pytest.fixture(params=["cold", "warm"])
async def start(request: pytest.FixtureRequest, world: Path) -> str:
    """Both ways of starting a child: in an interpreter of its own, or forked from the warm one."""
    if request.param == "cold":
        os.environ.update(COLD)
    else:
        assert await hosted_fork_server("lean").ready()
    return request.param


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project folder to work in, in an environment with nothing but a fresh HOME."""
    before = dict(os.environ)
    kept = {name: os.environ[name] for name in SECRET_FREE if name in os.environ}
    for name in tuple(os.environ):
        if name not in kept and not name.startswith(("COV_", "COVERAGE_", "PYTEST_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    project = tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / ".git").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(project)
    yield project
    os.environ.clear()
    os.environ.update(before)
    _nothing_is_left(tmp_path)


def _nothing_is_left(tmp_path: Path) -> None:
    """Fail where a test leaves a process or a temporary file behind."""
    wait_until(lambda: not children_at_work(), "children that outlived their test")
    left = [path for path in (tmp_path / "state").rglob("*") if path.name.endswith(".partial")]
    left += list((tmp_path / "state").rglob("spill/*"))
    assert not left


def children_at_work() -> list[psutil.Process]:
    """Return the guardians and children below this process; those that wait are not at work."""
    found: list[psutil.Process] = []
    fork_servers = {server.pid for server in fork_client._hosted.values()}
    for process in psutil.Process().children(recursive=True):
        try:
            is_child = any(part.startswith("outrider.child") for part in process.cmdline())
            waits = process.name() in ("outrider-warm", "outrider-spare")
        except psutil.NoSuchProcess:
            continue
        if is_child and not waits and process.pid not in fork_servers:
            found.append(process)
    return found


def assert_nothing_left() -> None:
    """No child runs any more; its guardian has said its last word, and is seen off here."""
    for process in children_at_work():
        with suppress(psutil.NoSuchProcess):
            is_child = process.name() == "outrider-child"
            # One in its exit can do nothing any more; nobody waits for the kernel to be done.
            assert not is_child or is_ending(process.pid) or not process.is_running()
    wait_until(lambda: not children_at_work(), "the guardians to be gone")


def look_around(request: ModelRequest, delay: float) -> Reply:
    """Return a step of a model that never repeats the one before, as a child is stopped for."""
    depth = 1 + request.turn % 2
    return replace(tool_call("ls", {"path": ".", "depth": depth}), delay=delay)


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    """Return when `condition` holds; fail, naming `what` was waited for, when it never does."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, f"still waiting after {seconds} s: {what}"
        time.sleep(0.01)


def unmeasured_environment() -> dict[str, str]:
    """Return the environment for a process whose imports or time are looked at: no coverage."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COV")}


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No coverage, which doubles the time: for tests of what other tests run too."""
    trace = sys.gettrace()
    for name in MEASURING:
        monkeypatch.delenv(name, raising=False)
    sys.settrace(None)
    with patch.dict(MEASURING, clear=True):
        yield
    sys.settrace(trace)
