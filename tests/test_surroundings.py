"""A task runs in its caller's surroundings: its namespaces, priority, limits and folders."""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from cli_door import Door
from conftest import wait_until
from outrider import Outcome, subagent
from outrider.protocol.brief import Brief
from outrider.runtimes.native import runtime as native
from outrider.runtimes.native.fork_client import (
    HostedForkServer,
    UserForkServer,
    code_identity,
    hosted_fork_server,
)
from outrider.runtimes.native.links import Links, StartFailed
from outrider.testing import ModelRequest, ScriptedModel, Step, answer, tool_call

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="children are warm on Linux only"),
    pytest.mark.usefixtures("unmeasured"),
]
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
DIGEST = "from outrider.processes.surroundings import surroundings; print(surroundings())"
OTHER_USER = 54321
ONE_CPU = str(min(os.sched_getaffinity(0)))


def echo(request: ModelRequest) -> Step:
    return answer(f"You asked: {request.last_user_text}")


def digest(*prefix: str) -> str:
    command = [*prefix, sys.executable, "-c", DIGEST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if done.returncode and b"not permitted" in done.stderr.encode():
        pytest.skip(f"{' '.join(prefix)} is not permitted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def plain() -> str:
    return digest()


@pytest.mark.parametrize("prefix", ["env", "setsid", "nohup"])
def test_what_a_task_does_not_inherit_makes_no_difference(plain: str, prefix: str) -> None:
    assert digest(prefix) == plain


@pytest.mark.parametrize(
    "prefix",
    [
        "nice -n 5", "ionice -c 3", "chrt --batch 0", f"taskset -c {ONE_CPU}", "choom -n 500 --",
        "setarch -R", "setpriv --no-new-privs", "prlimit --core=4096:4096", "prlimit --nproc=999",
        "prlimit --sigpending=999", "prlimit --stack=4194304:4194304", "unshare --net",
        "unshare --uts", "unshare --ipc", "unshare --mount", "unshare --cgroup", "unshare --user",
    ],
)  # fmt: skip
def test_what_a_task_inherits_makes_a_difference(plain: str, prefix: str) -> None:
    if prefix.startswith("taskset") and len(os.sched_getaffinity(0)) == 1:
        prefix = "chrt --idle 0"
    assert digest(*prefix.split()) != plain


def test_an_umask_makes_a_difference(plain: str) -> None:
    assert digest("sh", "-c", 'umask 0027; exec "$@"', "sh") != plain


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder that another user can get to."""
    with tempfile.TemporaryDirectory(prefix="or") as folder:
        yield Path(folder)


@pytest.fixture
def door(tmp_path: Path, warm_runtime: Path) -> Iterator[Door]:
    with closing(Door(tmp_path, warm_runtime)) as door:
        yield door


def run(
    door: Door, server: ScriptedModel, prefix: str, *options: str
) -> "subprocess.CompletedProcess[str]":
    command = [*prefix.split(), sys.executable, "-m", "outrider", "run", "--model", server.model]
    return subprocess.run(
        [*command, *options],
        cwd=door.project,
        env=door.environment(server.environment),
        capture_output=True,
        text=True,
        timeout=100,
    )


def served(runtime: Path) -> int:
    running = UserForkServer({"XDG_RUNTIME_DIR": str(runtime)}, minutes=0).status()
    return sum(one["served"] for one in running)


DOER = "---\nname: doer\ntools: bash\n---\nDo it.\n"


def test_a_limit_on_memory_and_a_priority_make_a_cold_start(door: Door, warm_runtime: Path) -> None:
    agents = door.home / ".config/outrider/agents"
    agents.mkdir(parents=True)
    (agents / "doer.md").write_text(DOER)
    before = served(warm_runtime)
    with ScriptedModel(echo) as server:
        done = run(door, server, "env", "explorer", "First.")
        assert done.stdout.strip() == "You asked: First.", done.stderr
        assert served(warm_runtime) == before + 1
    steps = [tool_call("bash", {"command": "ulimit -v; nice"}), answer("Done.")]
    with ScriptedModel(steps) as server:
        allowed = ("--set", "subagents.allowWrite=true")
        done = run(door, server, "nice -n 5 prlimit --as=204800000", "doer", "Go.", *allowed)
        assert done.stdout.strip() == "Done.", done.stderr
    told = server.requests[1].messages[-1]["content"]
    assert told.split()[:2] == ["200000", str(os.nice(0) + 5)]
    assert served(warm_runtime) == before + 1


def test_a_small_limit_on_files_is_a_clear_failure(door: Door) -> None:
    with ScriptedModel(echo) as server:
        done = run(door, server, "prlimit --nofile=14", "explorer", "Go.")
    assert done.returncode == 1
    assert "could not be started" in done.stderr and "Too many open files" in done.stderr


def test_a_small_limit_on_processes_is_a_clear_failure(short: Path) -> None:
    limit = "prlimit --nproc=1"
    if os.getuid() == 0:  # whom this limit doesn't bind
        rights = "--inh-caps +dac_override --ambient-caps +dac_override"
        user = f"--reuid {OTHER_USER} --regid {OTHER_USER} --clear-groups"
        limit = f"setpriv {user} {rights} {limit}"
        os.chown(short, OTHER_USER, OTHER_USER)
    with ScriptedModel(echo) as server, closing(Door(short, short)) as door:
        done = run(door, server, limit, "explorer", "Go.")
    assert done.returncode == 1
    assert "could not be started" in done.stderr and "unavailable" in done.stderr


EXHAUSTED = """
import resource, threading
from outrider.child import exhaustion
exhaustion.MAX_THREAD_START_SECONDS = 1.0
exhaustion.end_when_exhausted()
for _ in range(4):  # the C library keeps the memory of their stacks
    thread = threading.Thread(target=bytes, args=(9,))
    thread.start()
    thread.join()
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * 4096, -1))
held = []
while True:
    held.append(threading.Thread(target=threading.Event().wait, daemon=True))
    held[-1].start()
"""


def test_a_thread_that_gets_no_memory_ends_the_child() -> None:
    command = [sys.executable, "-c", EXHAUSTED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert any(word in done.stderr for word in ("did not begin", "MemoryError", "new thread"))


STUCK = """
import threading
from outrider.child import exhaustion
exhaustion.MAX_THREAD_START_SECONDS = 0.1
exhaustion.end_when_exhausted()
# What `Thread.start` calls to make a thread, before it waits for that to begin without a limit.
starter = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else None
starter = starter or "_start_new_thread"
assert hasattr(threading, starter)
setattr(threading, starter, lambda *_args, **_options: None)
threading.Thread(target=print).start()
"""


def test_a_thread_that_never_begins_ends_the_child() -> None:
    command = [sys.executable, "-c", STUCK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "can't start a thread" in done.stderr and "start_in_time" in done.stderr


SEALED = """
import os
from outrider.processes.reaping import libc, seal
from outrider.processes.surroundings import surroundings
libc()  # loaded while it can be
if os.getuid() == 0:  # whom no seal binds
    os.setgid(65534)
    os.setuid(65534)
    libc().prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, which a change of the user takes away
before = surroundings()
seal()
print(before == surroundings())
"""


def test_a_sealed_process_knows_its_surroundings() -> None:
    done = subprocess.run([sys.executable, "-c", SEALED], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_a_caller_without_a_network_has_children_without_one(door: Door) -> None:
    digest("unshare", "--net")  # or this test is skipped
    with ScriptedModel(echo) as server:
        once = ("--set", "subagents.retry.enabled=false")
        done = run(door, server, "unshare --net", "explorer", "Go.", *once)
        assert done.returncode == 1, done.stdout
        assert not server.requests


async def test_a_host_that_changes_its_surroundings_gets_another_fork_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork_server = hosted_fork_server("lean")
    fork_server.kill()  # one that has lived for a while would be replaced at once
    assert await fork_server.ready()
    first = fork_server.pid
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, hard))
    try:
        with pytest.raises(StartFailed):
            await fork_server.start_child(Brief("0", "x", "", "", "openai-chat:x", "/"), {})
        assert fork_server.pid == first  # other threads may still need it
        monkeypatch.setattr("outrider.runtimes.native.fork_client.MIN_LIFE_SECONDS", 0)
        assert await fork_server.ready()
        assert fork_server.pid != first
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        fork_server.kill()


# A fork server that was stopped, and the time of a run.


async def test_a_stopped_fork_server_costs_a_run_none_of_its_time(world: Path) -> None:
    with ScriptedModel(echo) as server:
        os.environ.update(server.environment)
        assert await hosted_fork_server("lean").ready()
        stopped = psutil.Process(hosted_fork_server("lean").pid)
        stopped.suspend()
        config = {"subagents.timeoutMs": 25_000}
        result = await subagent("explorer", "Go.", model=server.model, config=config)
    assert result.text == "You asked: Go."
    assert not stopped.is_running()


async def test_a_cold_start_gets_the_time_that_is_left(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    async def in_vain(*_: object) -> Links:
        await asyncio.sleep(0.2)
        raise StartFailed("None.")

    def start_cold(_command: object, _start: object, _env: object, timeout_ms: int) -> Links:
        given.append(timeout_ms)
        raise StartFailed("Not here.")

    monkeypatch.setattr(HostedForkServer, "start_child", in_vain)
    monkeypatch.setattr(native, "start_cold", start_cold)
    config = {"subagents.timeoutMs": 10_000}
    result = await subagent("explorer", "Go.", model="embedded", config=config)
    assert result.details.results[0].outcome is Outcome.FAILED
    assert 0 < given[0] <= 9_800


# The folder of the user's socket.


ASK = """
import asyncio, os
from outrider.protocol.brief import Brief
from outrider.runtimes.native.fork_client import UserForkServer
from outrider.runtimes.native.links import StartFailed
brief = Brief("00000000", "x", "You.", "Go.", "openai-chat:x", "/")
try:
    asyncio.run(UserForkServer(os.environ, minutes=1).start_child(brief, {}))
except (StartFailed, OSError):
    print("none yet")
"""


def ask(*prefix: str, **env: Path) -> None:
    """Ask for a child, and so have a fork server begun where that is safe."""
    command = [*prefix, sys.executable, "-c", ASK]
    variables = {name: str(path) for name, path in env.items()}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=100)
    assert done.stdout == "none yet\n", done.stderr


def prepare(folder: Path, victim: Path) -> None:
    """Put links in place of all that a fork server could make in its folder."""
    folder.mkdir(parents=True, mode=0o700)
    name = f"warm-{code_identity()}"
    for made in (f"{name}.lock", f"{name}.sock.lock", f"{name}.sock"):
        (folder / made).symlink_to(victim)


def test_a_prepared_temporary_folder_is_not_used(tmp_path: Path) -> None:
    prepare(tmp_path / f"outrider-{os.getuid()}", tmp_path / "victim")
    ask(HOME=tmp_path / "none", TMPDIR=tmp_path)
    assert not (tmp_path / "victim").exists()


def test_a_link_in_the_folder_leads_nowhere(short: Path) -> None:
    prepare(short / "outrider", short / "victim")
    ask(HOME=short, XDG_RUNTIME_DIR=short)
    assert not (short / "victim").exists()


def test_a_folder_that_is_a_link_is_not_used(short: Path) -> None:
    (short / "elsewhere").mkdir(mode=0o700)
    (short / "outrider").symlink_to(short / "elsewhere")
    ask(HOME=short, XDG_RUNTIME_DIR=short)
    assert not list((short / "elsewhere").iterdir())


@needs_root
@pytest.mark.parametrize("foreign", ["", "outrider"])
def test_a_folder_of_another_users_is_not_used(short: Path, foreign: str) -> None:
    (short / "outrider").mkdir(mode=0o700)
    os.chown(short / foreign, OTHER_USER, OTHER_USER)
    ask(HOME=short / "none", XDG_RUNTIME_DIR=short)
    assert not list((short / "outrider").iterdir())


def test_a_runtime_folder_that_others_can_write_to_is_not_used(short: Path) -> None:
    short.chmod(0o777)
    ask(HOME=short / "none", XDG_RUNTIME_DIR=short)
    assert not list(short.iterdir())


def test_a_confined_command_leaves_no_fork_server_behind(short: Path) -> None:
    ask("setpriv", "--no-new-privs", HOME=short / "none", XDG_RUNTIME_DIR=short)
    assert not list(short.iterdir())


def test_without_a_runtime_folder_the_state_folder_has_the_socket(tmp_path: Path) -> None:
    state = tmp_path / ("long" * 30)  # longer than a socket's path may be
    state.mkdir()
    ask(OUTRIDER_HOME=state)
    fork_server = UserForkServer({"OUTRIDER_HOME": str(state)}, minutes=0)
    wait_until(fork_server.status, "the user's fork server")
    assert (state / "warm").stat().st_mode & 0o777 == 0o700
    assert fork_server.stop()
    wait_until(lambda: not list((state / "warm").iterdir()), "the files to be gone")
