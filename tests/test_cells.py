"""What a child starts reaches no process, network, socket or file but its own."""

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import needs
from outrider import subagent
from outrider.agents.definitions import Source, parse_definition
from outrider.processes.cell_start import Cells
from outrider.processes.confinement import advice_on_namespaces
from outrider.testing import ScriptedModel, answer, tool_call
from test_walls import MEASURED, ROOT, USER_ID, WHO, World

HARNESS = f"""
import ctypes, errno, json, os, signal, socket, subprocess, sys, fcntl, mmap
from outrider.processes import cell, kernel, landlock, reaping, seccomp, walls
who, given = sys.argv[1], json.loads(sys.argv[2])
reaping.libc(), ctypes.get_errno(), ctypes.c_ulong, ctypes.addressof
exec(given["before"])
if who == "user" and os.geteuid() == 0:
    os.setgroups([]), os.setgid({USER_ID}), os.setuid({USER_ID})
os.chdir(given["project"])
missing = walls.enter(walls.Walls(**given["walls"])) if given["walls"] is not None else ()
out = os.dup(1)
os.set_inheritable(out, False)
missing += cell.enter_cell(given["network"], given["writable"])

def call(*arguments):
    if reaping.libc().syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def connect(family, kind, address):
    with socket.socket(family, kind) as link:
        link.settimeout(5)
        link.connect(address)
        link.send(b"x")

def own_loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect(socket.AF_INET, socket.SOCK_STREAM, server.getsockname())
        return server.accept()[0].recv(1).decode()

def run(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()

said = {{"missing": missing}}
for name, attempt in given["tries"].items():
    try:
        said[name] = eval(attempt)
        if hasattr(said[name], "close"):
            said[name] = "opened"
    except OSError as error:
        said[name] = errno.errorcode.get(error.errno, str(error))
os.write(out, json.dumps(said).encode())
os._exit(0)
"""
SYSTEM_CALLS = {
    "ptrace": "(ptrace, 16, 1, 0, 0)",
    "unshare": "(unshare, 0x10000000)",
    "mounting": "(mount, b'none', b'/tmp', b'tmpfs', 0, None)",
    "unmounting": "(umount2, b'/tmp', 2)",
    "opening a tree": "(open_tree, -100, b'/', 0)",
    "another namespace": "(setns, 0, 0)",
    "keyring": "(keyctl, 0, -3, 0)",
    "bpf": "(bpf, 0, None, 0)",
    "io_uring": "(io_uring_setup, 1, None)",
    "userfaultfd": "(userfaultfd, 0)",
    "memory of others": "(process_vm_readv, 1, None, 0, None, 0, 0)",
    "by handle": "(open_by_handle_at, 0, None, 0)",
    "performance": "(perf_event_open, None, 0, -1, -1, 0)",
}


class Prison:
    """A world with a cell in it, and what there is outside of both."""

    def __init__(self, world: World) -> None:
        self.world = world

    def attempt(
        self, tries: dict[str, str], network: str = "none", before: str = "", walled: bool = True
    ) -> dict[str, Any]:
        """Enter walls and a cell, and return what each try gave, or the name of its error."""
        world = self.world
        around = {
            "seen": [str(world.project), str(world.home), str(world.folder / "others")],
            "writable": [str(world.project), *MEASURED],
            "private": [str(world.run.parent)],
            "hidden": [str(world.home / ".ssh"), str(world.home / ".netrc")],
            "home": str(world.home),
        }
        given = {
            "project": str(world.project),
            "walls": around if walled else None,
            "network": network,
            "writable": [str(world.project), "/tmp", "/dev/shm", str(world.home), *MEASURED],
            "tries": tries,
            "before": before,
        }
        command = [sys.executable, "-c", HARNESS, world.who, json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(params=WHO)
def prison(request: pytest.FixtureRequest, tmp_path: Path) -> Prison:
    return Prison(World(tmp_path / "world", request.param))


def number_of(name: str) -> str:
    """Return a system call's number on this machine, from the table of those that are refused."""
    from outrider.processes import seccomp

    column = seccomp._MACHINES[os.uname().machine][1]
    rows = seccomp._REFUSED.replace("\n", "·").split("·")
    return next(row.split()[column] for row in rows if row.split()[:1] == [name])


def test_the_kernel_refuses_what_no_command_needs(prison: Prison) -> None:
    tries = {}
    for what, arguments in SYSTEM_CALLS.items():
        name = arguments.strip("(").partition(",")[0]
        tries[what] = f"call{arguments.replace(name, number_of(name), 1)}"
    tries |= {
        "typing into a terminal": "fcntl.ioctl(0, 0x5412, b'x')",
        "a socket of the machine below": "socket.socket(40, socket.SOCK_STREAM)",
        "a namespace by clone": "call(56, 0x10000000 | 17, 0, 0, 0, 0)"
        if os.uname().machine == "x86_64"
        else "call(220, 0x10000000 | 17, 0, 0, 0, 0)",
        "clone3": "call(435, None, 0)",
    }
    said = prison.attempt(tries)
    assert said.pop("missing") == []
    assert said.pop("a socket of the machine below") == "EAFNOSUPPORT"
    assert said.pop("clone3") == "ENOSYS"
    assert set(said.values()) == {"EPERM"}, said


def test_no_process_of_the_host_can_be_seen_or_reached(prison: Prison) -> None:
    me = os.getpid()
    said = prison.attempt(
        {
            "own id": "os.getpid()",
            "processes": "[name for name in os.listdir('/proc') if name.isdigit()]",
            "signal": f"os.kill({me}, 0)",
            "environment": f"open('/proc/{me}/environ').read()",
            "all": "os.kill(-1, 0)",
        }
    )
    assert said["missing"] == [] and said["own id"] == 1 and said["processes"] == ["1"]
    assert said["signal"] == said["all"] == "ESRCH" and said["environment"] == "ENOENT"


@pytest.fixture
def host_sockets(prison: Prison) -> Iterator[dict[str, str]]:
    """Sockets of this process in all kinds of places, each with how it is connected to."""
    world, kept = prison.world, []
    (world.folder / "service").mkdir()
    shared = Path(f"/tmp/outrider-test-{os.getpid()}.sock")
    # A short name for each folder: the kernel takes no socket's path of more than 107 bytes.
    places = [world.folder / "service/a", world.home / "b", world.project / "c", shared]
    tries = {}
    for place in places:
        link = socket.socket(socket.AF_UNIX)
        shared.unlink(missing_ok=True)
        link.bind(str(place)) if place == shared else _bind(link, place)
        link.listen()
        place.chmod(0o777)
        kept.append(link)
        tries[str(place)] = (
            f"os.chdir({str(place.parent)!r}) or "
            f"connect(socket.AF_UNIX, socket.SOCK_STREAM, {place.name!r})"
        )
    abstract = f"\0outrider-test-{os.getpid()}"
    link = socket.socket(socket.AF_UNIX)
    link.bind(abstract)
    link.listen()
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    kept += [link, tcp, udp]
    tries["abstract"] = f"connect(socket.AF_UNIX, socket.SOCK_STREAM, {abstract!r})"
    tries["tcp"] = f"connect(socket.AF_INET, socket.SOCK_STREAM, {tcp.getsockname()!r})"
    udp_try = f"connect(socket.AF_INET, socket.SOCK_DGRAM, {udp.getsockname()!r})"
    tries["udp"] = udp_try
    udp.setblocking(False)
    yield tries
    with pytest.raises(BlockingIOError):
        udp.recv(1)
    for one in kept:
        one.close()
    shared.unlink(missing_ok=True)


def _bind(link: socket.socket, place: Path) -> None:
    """Bind a socket to its whole path, as others see it, also to one that is too long."""
    if len(os.fsencode(place)) < 108:
        link.bind(str(place))
        return
    pytest.fail(f"the temporary folder of the tests is too deep for sockets: {place}")


def test_no_socket_of_the_host_can_be_connected_to(
    prison: Prison, host_sockets: dict[str, str]
) -> None:
    tries = {
        **host_sockets,
        "beyond": "connect(socket.AF_INET, socket.SOCK_STREAM, ('1.2.3.4', 9))",
    }
    said = prison.attempt({**tries, "inside": "own_loopback()"})
    assert said.pop("missing") == [] and said.pop("inside") == "x"
    assert said.pop("udp") is None, "nobody says that nobody listens"
    refused = {"ECONNREFUSED", "ENOENT", "EACCES", "ENETUNREACH", "ENOTSOCK"}
    assert set(said.values()) <= refused, said


def test_with_the_hosts_network_its_abstract_sockets_and_processes_stay_out_of_reach(
    prison: Prison,
) -> None:
    name = f"\0outrider-test-host-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as link, socket.create_server(("127.0.0.1", 0)) as server:
        link.bind(name)
        link.listen()
        said = prison.attempt(
            {
                "abstract": f"connect(socket.AF_UNIX, socket.SOCK_STREAM, {name!r})",
                "tcp": f"connect(socket.AF_INET, socket.SOCK_STREAM, {server.getsockname()!r})",
                "signal": f"os.kill({os.getpid()}, 0)",
            },
            network="host",
        )
    assert said == {"missing": [], "abstract": "EPERM", "tcp": None, "signal": "ESRCH"}


def test_it_writes_to_its_own_folders_only(prison: Prison) -> None:
    world = prison.world
    others = world.folder / "others"
    others.mkdir()
    (others / "file").write_text("kept")
    os.chmod(others / "file", 0o666)
    before = world.states()
    said = prison.attempt(
        {
            "own": "open('new', 'w').write('mine')",
            "home": f"open({str(world.home / 'cache')!r}, 'w').write('mine')",
            "temporary": "open('/tmp/new', 'w').write('mine')",
            "others": f"open({str(others / 'file')!r}, 'w')",
            "mode": f"os.chmod({str(others / 'file')!r}, 0o600)",
            "record": f"open({str(world.run / 'session.jsonl')!r}, 'w')",
            "process": "open('/proc/self/oom_score_adj', 'w')",
            "other runs": f"os.listdir({str(world.other.parent)!r})",
            "key": f"open({str(world.home / '.netrc')!r}).read()",
        }
    )
    assert said.pop("missing") == []
    assert said == {
        **dict.fromkeys(("own", "home", "temporary"), 4),
        **dict.fromkeys(("others", "mode"), "EROFS"),
        "record": "ENOENT",
        "process": "EROFS",
        "other runs": "ENOENT",
        "key": "",
    }
    (world.project / "new").unlink()
    after = world.states()
    touched = str(world.project)
    assert {path: it for path, it in after.items() if path != touched} == {
        path: it for path, it in before.items() if path != touched
    }


@pytest.mark.skipif(not ROOT, reason="only root can make a setuid program of another user")
def test_a_setuid_program_gains_nothing(tmp_path: Path) -> None:
    world = World(tmp_path / "world", "user")
    program = world.project / "id"
    shutil.copy("/usr/bin/id", program)
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    said = Prison(world).attempt({"who": f"run({str(program)!r}, '-u')"})
    assert said == {"missing": [], "who": str(USER_ID)}


LACKING = {
    "the network": ("namespace of the network", "unshare", 0x40000000),
    "IPC": ("namespace of IPC", "unshare", 0x8000000),
    "processes": ("namespace of processes", "unshare", 0x20000000),
    "landlock": ("landlock", "landlock", 0),
    "seccomp": ("seccomp", "seccomp", 0),
    "proc": ("/proc", "mount", "proc"),
}
REFUSE = """
def refuse(*_): raise OSError(errno.EPERM, os.strerror(errno.EPERM))
what, value = {what!r}, {value!r}
plain, mounting = kernel.unshare, kernel.mount
if what == "unshare":
    kernel.unshare = lambda kinds: refuse() if kinds & value else plain(kinds)
elif what == "landlock":
    landlock.restrict_writing = refuse
elif what == "seccomp":
    seccomp.restrict = refuse
else:
    kernel.mount = lambda first, *a, **k: refuse() if first == value else mounting(first, *a, **k)
"""


@pytest.mark.parametrize("mechanism", LACKING)
def test_each_mechanism_that_is_missing_is_named_and_the_others_hold(
    prison: Prison, mechanism: str
) -> None:
    named, what, value = LACKING[mechanism]
    said = prison.attempt(
        {
            "others": "open('/etc/outrider-was-here', 'w')",
            "mount": f"call({number_of('mount')}, b'none', b'/tmp', b'tmpfs', 0, None)",
            "beyond": "connect(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', 9))",
        },
        before=REFUSE.format(what=what, value=value),
    )
    assert said["missing"] == [f"{named}: Operation not permitted"]
    assert said["others"] in ("EROFS", "EACCES") and said["mount"] == "EPERM"


def test_a_program_in_a_cell_ends_as_it_ends(tmp_path: Path) -> None:
    async def codes() -> list[int]:
        ends = ("exit 3", "kill -9 $$", "sleep 100 & exit 0")
        started = [await Cells().start("/bin/sh", "-c", end) for end in ends]
        return [await one.wait() for one in started]

    assert asyncio.run(codes()) == [3, 128 + signal.SIGKILL, 0]

    async def fail() -> None:
        await Cells().start(str(tmp_path / "nothing"))

    with pytest.raises(FileNotFoundError, match="nothing"):
        asyncio.run(fail())


# From here on: a real child, its real shell, and real tool chains.


FOREVER = str(100_000 + os.getpid())  # no other test's
AGENT = "---\nname: doer\ntools: bash\n---\nDo it.\n"
MAY_WRITE = {
    "subagents.allowWrite": True,
    "subagents.isolation": "none",
    "subagents.trustedProjects": ["/"],
}


async def done_by(world: Path, *commands: str, **config: object) -> tuple[Any, list[str]]:
    """Return the result of a child that runs these commands, and what each of them printed."""
    agents = world / ".outrider/agents"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / "doer.md").write_text(AGENT)
    calls = [tool_call("bash", {"command": command}) for command in commands]
    with ScriptedModel([*calls, answer("Done.")]) as server:
        os.environ.update(server.environment)
        given = {**MAY_WRITE, **config}
        result = await subagent("doer", "Go.", model=server.model, config=given)
        assert result.completed, result.text
    told = [str(request.messages[-1]["content"]) for request in server.requests[1:]]
    return result.details.results[0], told


@pytest.mark.usefixtures("start")
async def test_a_command_that_fails_at_a_wall_is_told_which(world: Path) -> None:
    fetch = "import urllib.request as u; u.urlopen('http://192.0.2.1/')"
    look_up = "import socket; socket.getaddrinfo('example.org', 80)"
    run, told = await done_by(
        world,
        f'{sys.executable} -c "{fetch}"',
        f'{sys.executable} -c "{look_up}"',
        "touch /etc/outrider-was-here",
        "false",
        "echo fine; touch here",
    )
    for said in told[:2]:
        assert "[it tried to reach the network, which commands here don't have" in said
    assert "[it tried to write outside of" in told[2] and str(world) in told[2]
    assert told[3] == "[exit code 1]" and told[4] == "fine\n[exit code 0]"
    assert (world / "here").exists()
    assert (run.isolation.kind, run.isolation.network, run.isolation.missing) == (
        "none",
        "none",
        (),
    )


async def test_the_users_settings_and_agents_open_the_network_and_a_repositorys_do_not(
    world: Path,
) -> None:
    agents = Path(os.environ["HOME"]) / ".config/outrider/agents"
    agents.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 5<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        run, (told,) = await done_by(world, connect)
        assert "reached" not in told and run.isolation.network == "none"
        run, (told,) = await done_by(world, connect, **{"subagents.network": "host"})
        assert "reached" in told and run.isolation.network == "host"
        (agents / "doer.md").write_text(AGENT.replace("tools:", "network: host\ntools:"))
        shutil.rmtree(world / ".outrider")
        calls = [tool_call("bash", {"command": connect}), answer("Done.")]
        with ScriptedModel(calls) as model:
            os.environ.update(model.environment)
            result = await subagent("doer", "Go.", model=model.model, config=MAY_WRITE)
        assert result.details.results[0].isolation.network == "host"
    source = AGENT.replace("tools:", "network: host\ntools:")
    agent, notes = parse_definition(source, "doer.md", Source.PROJECT)
    assert agent is not None and agent.network == "none"
    assert "only your own files can loosen it" in str(notes[0])


async def test_a_folder_behind_a_link_can_be_worked_in(world: Path, tmp_path: Path) -> None:
    (world / "real").mkdir()
    (tmp_path / "link").symlink_to(world / "real")
    calls = [tool_call("bash", {"command": "touch made; pwd -P"}), answer("Done.")]
    (world / "real/.outrider/agents").mkdir(parents=True)
    (world / "real/.outrider/agents/doer.md").write_text(AGENT)
    with ScriptedModel(calls) as server:
        os.environ.update(server.environment)
        folder = tmp_path / "link"
        result = await subagent("doer", "Go.", model=server.model, cwd=folder, config=MAY_WRITE)
    assert result.completed, result.text
    assert (world / "real/made").exists()
    assert str(world / "real") in str(server.requests[1].messages[-1]["content"])


@pytest.mark.parametrize(
    ("file", "content", "advice"),
    [
        ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts"),
        ("proc/sys/kernel/unprivileged_userns_clone", "0", "switched off for users"),
        ("proc/sys/user/max_user_namespaces", "0", "no namespaces are allowed"),
        ("run/.containerenv", "", "the container's seccomp profile"),
        ("proc/sys/kernel/unprivileged_userns_clone", "1", ""),
    ],
)
def test_doctor_knows_why_there_are_no_namespaces_and_what_would_help(
    tmp_path: Path, file: str, content: str, advice: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(content)
    said = advice_on_namespaces(str(tmp_path))
    assert advice in said and bool(said) is bool(advice)


PYTEST = """
import multiprocessing, socket

def test_pool():
    with multiprocessing.Pool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2]

def test_loopback(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    (tmp_path / "file").write_text("kept")
"""
COMMIT = (
    "git init -q scratch && cd scratch && touch a && git add a &&"
    " git -c user.name=x -c user.email=x@y commit -qm one && git log --oneline && cd .."
)
PACKAGE = '{"name": "x", "version": "1.0.0", "scripts": {"test": "node -e \\"process.exit(0)\\""}}'
CRATE = '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n'


async def test_real_tool_chains_work_in_a_cell(world: Path) -> None:
    (world / "test_own.py").write_text(PYTEST)
    (world / "package.json").write_text(PACKAGE)
    commands = {
        "pytest": f"{sys.executable} -m pytest -q -p no:cacheprovider test_own.py",
        "git": COMMIT,
        "npm": f"{needs('npm')} test",
        "pip": f"{sys.executable} -m pip download nothing-of-that-name",
        "terminal": "script -qec tty /dev/null",
        "caches": "mkdir -p ~/.cache/tool && touch ~/.cache/tool/kept",
    }
    _, told = await done_by(world, *commands.values())
    for name, said in zip(commands, told, strict=True):
        assert ("exit code 0" in said) is (name != "pip"), said
    assert not (Path(os.environ["HOME"]) / ".cache/tool").exists()


async def test_a_crate_is_built_in_a_cell(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("cargo")
    toolchains = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".rustup"
    if toolchains.exists():  # which rustup finds in HOME, and the tests have another
        monkeypatch.setenv("RUSTUP_HOME", str(toolchains))
    (world / "src").mkdir()
    (world / "Cargo.toml").write_text(CRATE)
    (world / "src/main.rs").write_text("fn main() {}\n")
    _, (told,) = await done_by(world, "cargo build --offline && ./target/debug/x")
    assert "exit code 0" in told, told


async def test_whoever_is_killed_nothing_stays_of_a_run(world: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    killed: set[str] = set()
    for _ in range(5):
        running = asyncio.create_task(done_by(world, f"sleep {FOREVER} & echo begun; wait"))
        while not (found := sleepers()):
            await asyncio.sleep(0.02)
            assert not running.done(), running.result()
        chain = [found[0], *found[0].parents()]
        above = chain[: [one.pid for one in chain].index(os.getpid())]
        of_run = [one for one in above if one.name() != "outrider-warm"]
        victim = next(one for one in of_run if str(len(of_run) - of_run.index(one)) not in killed)
        killed.add(str(len(of_run) - of_run.index(victim)))
        victim.kill()
        with contextlib.suppress(AssertionError):  # how it ends depends on who was killed
            await running
        _, alive = await asyncio.to_thread(psutil.wait_procs, of_run, 30)
        assert not alive, (victim, alive)
    assert Path("/proc/self/mountinfo").read_text() == mounts


def _written(value: object) -> str:
    """A setting's value as a flag has it."""
    return value if isinstance(value, str) else json.dumps(value)


def sleepers() -> list[psutil.Process]:
    """Return the command of a run that never ends."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline() == ["sleep", FOREVER]:
                found.append(process)
    return found


PLACES = {
    "tmpfs": "kernel.mount('tmpfs', project, 'tmpfs')",
    "overlayfs": (
        "[os.mkdir(f'{folder}/{one}') for one in ('upper', 'work', 'top')],"
        "kernel.mount('tmpfs', f'{folder}/top', 'tmpfs'),"
        "[os.mkdir(f'{folder}/top/{one}') for one in ('upper', 'work')],"
        "kernel.mount('overlay', project, 'overlay', 0,"
        " f'lowerdir=/usr/share,upperdir={folder}/top/upper,workdir={folder}/top/work')"
    ),
    "nested mounts": "kernel.mount('tmpfs', f'{project}/sub', 'tmpfs')",
    "a nested mount that can't be written to": (
        "kernel.mount('tmpfs', f'{project}/sub', 'tmpfs', kernel.RDONLY)"
    ),
}
MOUNTED = """
kernel.unshare(kernel.NEWNS)
kernel.mount(None, "/", flags=kernel.REC | kernel.PRIVATE)
project, folder = given["project"], {folder!r}
{mount}
for path in (project, f"{{project}}/sub"):
    try:
        os.makedirs(path, exist_ok=True), os.chmod(path, 0o777)
    except OSError:
        pass
with open(f"{{project}}/others", "w") as file:
    file.write("theirs")
os.chown(f"{{project}}/others", 12345, 12345), os.chmod(f"{{project}}/others", 0o644)
"""


@pytest.mark.skipif(not ROOT, reason="only root can mount")
@pytest.mark.parametrize("place", PLACES)
def test_a_working_folder_can_lie_on_any_file_system(prison: Prison, place: str) -> None:
    world = prison.world
    before = MOUNTED.format(folder=str(world.folder), mount=PLACES[place])
    tries = {
        "own": "open('new', 'w').write('mine')",
        "nested": "open('sub/new', 'w').write('mine')",
        "read": "open('others').read()",
        "theirs": "open('others', 'a').write('mine')",
        "outside": "open('/etc/outrider-was-here', 'w')",
    }
    said = prison.attempt(tries, before=before)
    assert said["missing"] == [] and said["own"] == 4 and said["read"] == "theirs"
    assert said["nested"] == ("EROFS" if "can't be written" in place else 4)
    assert said["theirs"] == (4 if world.who == "root" else "EACCES")
    assert said["outside"] == "EROFS"


# What a kernel, a container or a security module refuses: a system call, a bit of its first
# argument, and what the result says then.
REFUSALS = {
    "namespaces": (272, 0xFFFFFFFF, "namespaces: Operation not permitted"),
    "mounts without attributes": (442, 0, "namespaces: Operation not permitted"),
    "network": (272, 0x40000000, "namespace of the network: Operation not permitted"),
    "processes": (272, 0x20000000, "namespace of processes: Operation not permitted"),
    "landlock": (444, 0, "landlock: Operation not permitted"),
}
REFUSING = """
import os, sys, struct
from ctypes import addressof, c_char_p, create_string_buffer
from outrider.processes import seccomp
from outrider.processes.kernel import checked, gain_nothing
from outrider.processes.reaping import libc
number, bit = map(int, sys.argv[1:3])
no = [seccomp._return(seccomp._REFUSE | 1)]
inner = [seccomp._load(16), *seccomp._when(0x45, bit, no), seccomp._return(seccomp._ALLOW)]
rules = [seccomp._load(0), *seccomp._when(0x15, number, inner if bit else no)]
rules.append(seccomp._return(seccomp._ALLOW))
code = create_string_buffer(b"".join(rules))
gain_nothing()
program = c_char_p(struct.pack("HxxxxxxP", len(rules), addressof(code)))
checked(libc().prctl(22, 2, program, 0, 0))
os.execv(sys.executable, [sys.executable, "-m", "outrider", *sys.argv[3:]])
"""


@pytest.mark.skipif(not ROOT, reason="only root has capabilities to lose")
@pytest.mark.parametrize("kept", [(), (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)])
def test_root_with_few_capabilities_as_in_a_container_stays_root(
    world: Path, kept: tuple[int, ...]
) -> None:
    agents = world / ".outrider/agents"
    agents.mkdir(parents=True)
    (agents / "doer.md").write_text(AGENT)
    drop = (
        "import ctypes, os, sys\n"
        f"[ctypes.CDLL(None).prctl(24, n, 0, 0, 0) for n in range(64) if n not in {kept}]\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'outrider', *sys.argv[1:]])"
    )
    with ScriptedModel([tool_call("bash", {"command": "id -u"}), answer("Done.")]) as server:
        env = {**os.environ, **server.environment}
        flags = [f"--set={key}={_written(value)}" for key, value in MAY_WRITE.items()]
        arguments = ["run", "doer", "Go.", "--json", "-m", server.model, *flags]
        line = [sys.executable, "-c", drop, *arguments]
        done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=100)
    run = json.loads(done.stdout)["details"]["results"][0]
    missing = [] if kept else ["namespaces: root lacks the capability CAP_SETFCAP"]
    assert run["isolation"]["missing"] == missing
    assert str(server.requests[1].messages[-1]["content"]) == "0\n[exit code 0]"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize("what", REFUSALS)
def test_a_result_names_what_the_machine_refuses_and_is_the_same_otherwise(
    world: Path, what: str
) -> None:
    number, bit, named = REFUSALS[what]
    agents = world / ".outrider/agents"
    agents.mkdir(parents=True)
    (agents / "doer.md").write_text(AGENT)
    # A new name: where nothing is confined, it is written to the folder itself.
    command = f"echo $((6 * 7)); touch {world}/kept"
    with ScriptedModel([tool_call("bash", {"command": command}), answer("Done.")]) as server:
        env = {**os.environ, **server.environment}
        flags = [f"--set={key}={_written(value)}" for key, value in MAY_WRITE.items()]
        arguments = ["run", "doer", "Go.", "--json", "-m", server.model, *flags]
        command_line = [sys.executable, "-c", REFUSING, str(number), str(bit), *arguments]
        done = subprocess.run(command_line, env=env, capture_output=True, text=True, timeout=100)
    run = json.loads(done.stdout)["details"]["results"][0]
    assert (done.returncode, run["outcome"], run["output"]) == (0, "completed", "Done.")
    assert named in run["isolation"]["missing"], run["isolation"]
    assert "42\n[exit code 0]" in str(server.requests[1].messages[-1]["content"])
    assert (world / "kept").exists()
