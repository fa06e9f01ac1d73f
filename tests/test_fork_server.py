"""The fork server is a matter of speed alone: no result, secret or process may depend on it."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import psutil
import pytest

from conftest import (
    MAY_WRITE,
    assert_nothing_left,
    children_at_work,
    unmeasured_environment,
    wait_until,
)
from outrider.delegation.api import subagent
from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.protocol.fork_messages import READY, STATUS, STOP, StartRequest
from outrider.protocol.outcomes import Outcome
from outrider.runtimes.native.fork_client import (
    UserForkServer,
    code_identity,
    end_fork_servers,
    hosted_fork_server,
)
from outrider.testing import ModelRequest, ScriptedModel, Step, answer, silence

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are warm on Linux only")


def echo(request: ModelRequest) -> Step:
    return answer(f"You asked: {request.last_user_text}")


async def until_warm() -> psutil.Process:
    assert await hosted_fork_server("lean").ready()
    return psutil.Process(hosted_fork_server("lean").pid)


async def test_a_warm_child_is_a_fork_and_a_cold_one_is_not(world: Path) -> None:
    with ScriptedModel([silence()], repeat=True) as server:
        os.environ.update(server.environment)
        fork_server = await until_warm()
        running = asyncio.ensure_future(subagent("explorer", "Wait.", model=server.model))
        await asyncio.to_thread(server.wait_for_requests, 1)
        at_work = {process.pid for process in children_at_work()}
        assert at_work
        assert at_work <= {process.pid for process in fork_server.children(recursive=True)}
        assert fork_server.num_threads() == 1
        # A session of their own, and for the child a group of its own in it.
        assert len({os.getsid(pid) for pid in at_work} - {os.getsid(fork_server.pid)}) == 1
        assert len({os.getpgid(pid) for pid in at_work}) == len(at_work) == 2
        running.cancel()
        await asyncio.wait({running})
        assert_nothing_left()


async def test_a_warm_child_holds_no_link_but_its_own(world: Path) -> None:
    with ScriptedModel([silence()], repeat=True) as server:
        os.environ.update(server.environment)
        fork_server = await until_warm()
        running = [
            asyncio.ensure_future(subagent("explorer", "Wait.", model=server.model))
            for _ in range(3)  # at most one of them is the spare
        ]
        await asyncio.to_thread(server.wait_for_requests, 3)
        processes = [fork_server, *children_at_work()]
        assert len(processes) == 7
        for one, other in combinations(processes, 2):
            are_guardian_and_child = one.pid == other.ppid() or one.ppid() == other.pid
            shared = 1 if are_guardian_and_child and one != fork_server else 0  # the lifeline
            assert len(_sockets(one) & _sockets(other)) == shared
        for task in running:
            task.cancel()
        await asyncio.wait(running)


@pytest.mark.usefixtures("unmeasured")
async def test_a_guardian_holds_little_memory_of_its_own(world: Path) -> None:
    end_fork_servers()  # one that is measured has more in each fork
    with ScriptedModel([silence()], repeat=True) as server:
        os.environ.update(server.environment)
        await until_warm()
        running = [
            asyncio.ensure_future(subagent("explorer", "Wait.", model=server.model))
            for _ in range(3)
        ]
        await asyncio.to_thread(server.wait_for_requests, 3)
        guardians = [one for one in children_at_work() if one.name() == "outrider-guard"]
        own = [one.memory_full_info().uss for one in guardians]
        for task in running:
            task.cancel()
        await asyncio.wait(running)
    end_fork_servers()
    assert len(own) == 3
    assert min(own) < 1_500_000  # that of a spare is one of the others


PAGES = """
import os, resource
from outrider.processes.copied_pages import copy_pages, pages_written_by
size = resource.getpagesize()
memory = bytearray(400 * size)

def write():
    for page in range(10, 300, 2):
        memory[page * size] = 7

def forked(run):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, run())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as told:
        return told.read()

def faults(pages):
    assert not pages or copy_pages(pages)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    write()
    assert memory[10 * size] == 7 and memory.count(7) == 145
    return str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before).encode()

assert not copy_pages(b"")
pages = forked(lambda: pages_written_by(write))
print(int(forked(lambda: faults(b""))), int(forked(lambda: faults(pages))))
"""


def test_a_fork_has_the_pages_that_another_one_wrote_to_before_it_writes() -> None:
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    without, with_pages = map(int, done.stdout.split())
    assert without >= 145 > 2 * with_pages


def _sockets(process: psutil.Process) -> set[str]:
    return {link for link in _opened(process.pid) if link.startswith("socket:")}


@pytest.mark.parametrize(
    "packet", [b"", READY, STATUS, STOP, b"{}", b"[1]", b'{"deadlineMs":"1"}', b"\xff", b"{"]
)
def test_a_packet_that_asks_for_no_child_starts_none(packet: bytes) -> None:
    assert StartRequest.from_bytes(packet) is None
    request = StartRequest(2**53, "0123")
    assert StartRequest.from_bytes(request.to_bytes()) == request


async def test_a_fork_server_that_was_killed_is_replaced(world: Path) -> None:
    with ScriptedModel(echo) as server:
        os.environ.update(server.environment)
        fork_server = await until_warm()
        fork_server.kill()
        result = await subagent("explorer", "First.", model=server.model)
        assert result.text == "You asked: First."
        assert (await until_warm()).pid != fork_server.pid
        result = await subagent("explorer", "Second.", model=server.model)
        assert result.text == "You asked: Second."


HOST = """
import asyncio, time
from outrider.runtimes.native.fork_client import hosted_fork_server
assert asyncio.run(hosted_fork_server("lean").ready())
print(hosted_fork_server("lean").pid, flush=True)
time.sleep(100)
"""


def test_a_fork_server_ends_with_its_host(world: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE) as host:
        assert host.stdout
        fork_server = psutil.Process(int(host.stdout.readline()))
        # Who maps root's ids may be there too.
        wait_until(
            lambda: len(fork_server.children(recursive=True)) >= 2, "a spare and its guardian"
        )
        left = [fork_server, *fork_server.children(recursive=True)]
        host.kill()
    wait_until(lambda: not any(process.is_running() for process in left), "all of them to end")


MOUNTER = """
import asyncio, os, subprocess
from pathlib import Path
import psutil
from conftest import wait_until
from outrider import subagent
from outrider.runtimes.native.fork_client import hosted_fork_server
from outrider.testing import ScriptedModel, answer, tool_call

def spare():
    below = psutil.Process(hosted_fork_server("lean").pid).children(recursive=True)
    return [process.pid for process in below if process.name() == "outrider-spare"]

async def main():
    with ScriptedModel([tool_call("read", {"path": "later/note.txt"}), answer("Done.")]) as server:
        os.environ.update(server.environment)
        assert await hosted_fork_server("lean").ready()
        wait_until(spare, "a spare")
        before = spare()
        Path("later").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", "later"], check=True)
        Path("later/note.txt").write_text("mounted just now")
        wait_until(lambda: not {*before} & {*spare()}, "the old spare to end")
        await subagent("explorer", "Look.", model=server.model)
        print(server.requests[-1].messages[-1]["content"])

asyncio.run(main())
"""


def test_a_child_sees_what_was_mounted_after_its_spare_had_begun_its_walls(world: Path) -> None:
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-c", MOUNTER]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert "mounted just now" in done.stdout


async def test_a_fork_server_of_other_code_is_replaced(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.runtimes.native.fork_client.LOOK_EVERY_SECONDS", 0)
    with ScriptedModel(echo) as server:
        os.environ.update(server.environment)
        first = await until_warm()
        assert (await until_warm()).pid == first.pid
        monkeypatch.setenv("PYTHONPATH", str(world))
        result = await subagent("explorer", "First.", model=server.model)
        assert result.text == "You asked: First."
        second = await until_warm()
        assert second.pid != first.pid
        monkeypatch.setattr("outrider.runtimes.native.fork_client.code_identity", lambda: "another")
        assert (await until_warm()).pid not in {first.pid, second.pid}


def test_any_change_of_the_code_is_another_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "outrider"
    (package / "below").mkdir(parents=True)
    for file in (package / "__init__.py", package / "below/one.py"):
        file.write_text("a = 1\n")
    own_file = str(package / "runtimes/native/fork_client.py")
    monkeypatch.setattr("outrider.runtimes.native.fork_client.__file__", own_file)
    seen = [code_identity(), code_identity()]
    (package / "below/one.py").write_text("ab = 1\n")
    seen.append(code_identity())
    (tmp_path / "another").mkdir()  # a package beside it
    seen.append(code_identity())
    (package / "below/one.py").unlink()
    seen.append(code_identity())
    assert seen[0] == seen[1]
    assert len(set(seen)) == 4


def test_code_has_an_identity_where_the_working_directory_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("PYTHONPATH", "lib")
    assert code_identity()


async def test_a_changed_setting_reaches_the_next_warm_child(world: Path) -> None:
    config = Path(os.environ["HOME"], ".config/outrider/config.json")
    config.parent.mkdir(parents=True, exist_ok=True)
    with ScriptedModel([silence()], repeat=True) as server:
        os.environ.update(server.environment)
        for limit in (1_200, 2_400):
            await until_warm()
            config.write_text(f'{{"subagents": {{"timeoutMs": {limit}}}}}')
            result = await subagent("explorer", "Wait.", model=server.model)
            assert result.details.results[0].outcome is Outcome.TIMED_OUT
            assert f"longer than {limit:,} ms" in (result.details.results[0].error or "")


async def test_a_child_holds_nothing_of_another_models_provider(world: Path) -> None:
    known_by = b"outrider/models/embedded/model.py"
    of_openai, of_embedded = map(hosted_fork_server, ("lean", "embedded"))
    assert await of_openai.ready() and await of_embedded.ready()
    result = await subagent("explorer", "What is here?", model="embedded")
    assert result.details.results[0].outcome is Outcome.COMPLETED
    assert of_openai.pid and of_embedded.pid
    assert known_by in _memory(of_embedded.pid)
    assert known_by not in _memory(of_openai.pid)
    for pid in (of_openai.pid, of_embedded.pid):
        assert b"pydantic_ai/models/" not in _memory(pid)
    end_fork_servers()
    assert of_openai.pid is None and of_embedded.pid is None


TASKS = 8


async def test_killing_the_fork_server_at_random_costs_no_answer(world: Path) -> None:
    chance = random.Random(7)
    with ScriptedModel(echo) as server:
        os.environ.update(server.environment)
        await until_warm()
        work = [
            asyncio.ensure_future(subagent("explorer", f"Task {n}.", model=server.model))
            for n in range(TASKS)
        ]
        while not all(task.done() for task in work):
            await asyncio.sleep(chance.uniform(0.1, 0.6))
            if (pid := hosted_fork_server("lean").pid) is not None:
                os.kill(pid, signal.SIGKILL)
        results = [task.result() for task in work]
    assert [result.text for result in results] == [f"You asked: Task {n}." for n in range(TASKS)]
    assert all(len(result.details.results) == 1 for result in results)
    assert len({result.details.run_id for result in results}) == TASKS
    assert sorted(r.last_user_text for r in server.requests) == sorted(
        f"Task {n}." for n in range(TASKS)
    )


async def test_many_at_once_leave_no_descriptor_behind(world: Path) -> None:
    with ScriptedModel(echo) as server:
        os.environ.update(server.environment)
        await until_warm()
        await subagent("explorer", "Once.", model=server.model)
        before = len(os.listdir("/proc/self/fd"))
        config = {"subagents.maxConcurrent": 20}
        results = await asyncio.gather(
            *(
                subagent("explorer", f"Task {n}.", model=server.model, config=config)
                for n in range(60)
            )
        )
        # The scripted model, in this very process, may not have closed its last connections yet.
        settled = lambda: len(os.listdir("/proc/self/fd")) <= before  # noqa: E731
        await asyncio.to_thread(wait_until, settled, "the descriptors to be closed")
    assert [result.text for result in results] == [f"You asked: Task {n}." for n in range(60)]


async def test_no_child_can_see_another_callers_secrets(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel([silence()], repeat=True) as server:
        fork_server = await until_warm()
        running = []
        for caller in ("one", "two"):
            env = {
                **os.environ,
                **server.environment,
                "OPENAI_API_KEY": f"key-of-caller-{caller}",
                "GITHUB_TOKEN": f"token-of-caller-{caller}",
            }
            request = Request("explorer", "Wait.", model=server.model)
            running.append(asyncio.ensure_future(perform(request, Caller(env))))
        await asyncio.to_thread(server.wait_for_requests, 2)
        seen = {r.headers["authorization"] for r in server.requests}
        assert seen == {"Bearer key-of-caller-one", "Bearer key-of-caller-two"}
        holders: set[bytes] = set()
        for process in [fork_server, *fork_server.children(recursive=True)]:
            try:
                environ = Path(f"/proc/{process.pid}/environ").read_bytes()
                memory = _memory(process.pid)
            except (FileNotFoundError, ProcessLookupError):
                continue  # a helper of the moment, which is gone
            assert b"of-caller" not in environ
            held = [who for who in (b"one", b"two") if b"key-of-caller-" + who in memory]
            assert len(held) <= 1, f"{process.pid} holds the keys of {held}"
            assert b"token-of-caller" not in memory
            holders.update(held)
        assert holders == {b"one", b"two"}  # or it was not the children that were looked at
        for task in running:
            task.cancel()
        await asyncio.wait(running)


def _memory(pid: int) -> bytes:
    """Return what a process has in its writable memory."""
    found: list[bytes] = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            region, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            begin, end = (int(part, 16) for part in region.split("-"))
            try:
                memory.seek(begin)
                found.append(memory.read(end - begin))
            except (OSError, ValueError, OverflowError):
                continue
    return b"".join(found)


async def test_a_fork_takes_on_its_callers_folder_and_variables(world: Path) -> None:
    (world / ".outrider/agents").mkdir(parents=True)
    (world / ".outrider/agents/doer.md").write_text("---\nname: doer\ntools: bash\n---\nDo it.\n")
    from outrider.testing import tool_call

    command = "pwd; echo $COLOUR; echo $OPENAI_API_KEY; exit 3"
    with ScriptedModel([tool_call("bash", {"command": command}), answer("Done.")]) as server:
        await until_warm()
        os.environ.update(server.environment, COLOUR="green")
        result = await subagent("doer", "Do.", model=server.model, config=MAY_WRITE)
    assert result.completed, result.text
    told = server.requests[1].messages[-1]["content"]
    assert told.splitlines()[:2] == [str(world), "green"]
    assert server.environment["OPENAI_API_KEY"] not in told
    assert result.details.results[0].receipt["commands"] == [{"command": command, "exitCode": 3}]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder; its path is short, for a socket's must be."""
    with tempfile.TemporaryDirectory(prefix="or") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder) / "outrider"


@pytest.fixture
def user_warmth(world: Path, runtime: Path) -> Iterator[UserForkServer]:
    warmth = UserForkServer(os.environ, minutes=10)
    yield warmth
    warmth.stop()
    wait_until(lambda: not warmth.status(), "the user's fork server to stop")


def one_shot(server: ScriptedModel, task: str, *options: str) -> str:
    return command(server, "run", "explorer", task, "--model", server.model, *options)


def command(server: ScriptedModel, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "outrider", *arguments],
        env={**unmeasured_environment(), **server.environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_users_fork_server_is_shown_stopped_and_done_without(
    user_warmth: UserForkServer,
) -> None:
    with ScriptedModel(echo) as server:
        assert command(server, "warm", "--status") == "none is running."
        assert one_shot(server, "First.", "--no-warm") == "You asked: First."
        assert not user_warmth.status()
        one_shot(server, "Second.")
        wait_until(user_warmth.status, "the user's fork server")
        assert one_shot(server, "Third.", "--no-warm") == "You asked: Third."
        assert command(server, "warm", "--status").endswith("0 runs started.")
        assert command(server, "warm", "--stop") == "stopped."
        assert command(server, "warm", "--status") == "none is running."
        assert one_shot(server, "Fourth.", "--set", "warm.keepMinutes=0") == "You asked: Fourth."
        assert not user_warmth.status()


def test_each_kind_of_model_has_its_own_fork_server_and_all_are_shown_and_stopped(
    user_warmth: UserForkServer, runtime: Path
) -> None:
    with ScriptedModel(echo) as server:
        one_shot(server, "First.")
        command(server, "run", "explorer", "What is here?", "--model", "embedded")
        wait_until(lambda: len(user_warmth.status()) == 2, "two fork servers")
        shown = command(server, "warm", "--status")
        assert [line.split(",")[0].split(" for ")[1] for line in shown.splitlines()] == [
            "embedded",
            "lean",
        ]
        one_shot(server, "Second.")
        assert [one["served"] for one in user_warmth.status()] == [0, 1]
        command(server, "warm", "--stop")
        wait_until(lambda: not list(runtime.iterdir()), "the files of both to be gone")


def test_a_fork_server_that_is_told_to_end_leaves_no_file_behind(
    user_warmth: UserForkServer, runtime: Path
) -> None:
    with ScriptedModel(echo) as server:
        one_shot(server, "First.")
        wait_until(user_warmth.status, "the user's fork server")
    os.kill(user_warmth.status()[0]["pid"], signal.SIGTERM)
    wait_until(lambda: not list(runtime.iterdir()), "its files to be gone")


def test_commands_share_a_fork_server_of_the_users_own(
    user_warmth: UserForkServer, runtime: Path
) -> None:
    with ScriptedModel(echo) as server:
        assert one_shot(server, "First.") == "You asked: First."
        wait_until(user_warmth.status, "the user's fork server")
        for n in range(3):
            assert one_shot(server, f"Task {n}.") == f"You asked: Task {n}."
    [status] = user_warmth.status()
    assert status["served"] == 3
    [socket_file] = runtime.glob("*.sock")
    assert code_identity() in socket_file.name
    assert socket_file.stat().st_mode & 0o777 == 0o600
    assert socket_file.parent.stat().st_mode & 0o777 == 0o700
    fork_server = psutil.Process(status["pid"])
    wait_until(lambda: _names_below(fork_server) == {"outrider-spare"}, "all but the spare to end")


def _names_below(process: psutil.Process) -> set[str]:
    with suppress(psutil.NoSuchProcess):
        # Who will map the ids of root's spare belongs to it.
        return {below.name() for below in process.children(recursive=True)} - {"outrider-ids"}
    return set()


def test_a_socket_folder_that_others_can_enter_is_not_trusted(
    user_warmth: UserForkServer, runtime: Path
) -> None:
    with ScriptedModel(echo) as server:
        one_shot(server, "First.")
        wait_until(user_warmth.status, "the user's fork server")
        runtime.chmod(0o755)
        assert not user_warmth.status()
        assert one_shot(server, "Second.") == "You asked: Second."
        runtime.chmod(0o700)
    [status] = user_warmth.status()
    assert status["served"] == 0


@pytest.mark.parametrize("visited", [False, True])
def test_a_fork_server_ends_when_nobody_comes(runtime: Path, visited: bool) -> None:
    runtime.mkdir(mode=0o700)
    lock = os.open(runtime / "warm.sock.lock", os.O_RDWR | os.O_CREAT)
    arguments = ("user", str(lock), "warm.sock", "0.05", "openai-chat")
    command = [sys.executable, "-m", "outrider.child.fork_server", *arguments]
    process = subprocess.Popen(command, cwd=runtime, pass_fds=(lock,))
    os.close(lock)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
        if visited:  # by a command that then does nothing more
            wait_until(lambda: _connects(visitor, runtime / "warm.sock"), "the socket", 100)
        assert process.wait(100) == 0
    assert not list(runtime.iterdir())


def _connects(client: socket.socket, path: Path) -> bool:
    with suppress(OSError):
        client.connect(str(path))
        return True
    return False


def test_a_fork_server_survives_a_client_that_asks_and_leaves(
    user_warmth: UserForkServer, runtime: Path
) -> None:
    with ScriptedModel(echo) as server:
        one_shot(server, "First.")
        wait_until(user_warmth.status, "the user's fork server")
        [socket_file] = runtime.glob("*.sock")
        for _ in range(50):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(str(socket_file))
                client.send(STATUS)
        assert user_warmth.status()


def test_many_commands_at_once_start_one_fork_server(
    user_warmth: UserForkServer, runtime: Path
) -> None:
    with ScriptedModel(echo) as server:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda n: one_shot(server, f"Task {n}."), range(4)))
        assert answers == [f"You asked: Task {n}." for n in range(4)]
        wait_until(user_warmth.status, "the user's fork server")
    processes = [process.info for process in psutil.process_iter(["name", "cwd"])]
    assert processes.count({"name": "outrider-warm", "cwd": str(runtime)}) == 1


def _opened(pid: int) -> set[str]:
    with suppress(OSError):
        return {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    return set()


@pytest.mark.usefixtures("cold")
async def test_a_process_without_a_fork_server_starts_cold(world: Path) -> None:
    with ScriptedModel(echo) as server:
        os.environ.update(server.environment)
        before = hosted_fork_server("lean").pid
        result = await subagent("explorer", "Cold.", model=server.model)
    assert result.details.results[0].outcome is Outcome.COMPLETED
    assert hosted_fork_server("lean").pid == before
