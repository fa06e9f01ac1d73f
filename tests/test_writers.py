"""A writer changes its own layer: the user's files change only when somebody lands that."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from outrider.agents.definitions import Source, parse_definition
from outrider.delegation.perform import Caller, perform
from outrider.delegation.request import Request
from outrider.protocol.outcomes import Outcome
from outrider.protocol.results import SingleResult, ToolResult
from outrider.testing import ScriptedModel, answer, tool_call
from outrider.workspaces import merged_check
from outrider.workspaces.layers.landing import CheckFailed, WriterRun
from outrider.workspaces.merged_check import check_of
from test_cells import REFUSING

MAY_WRITE = {"subagents.allowWrite": True}
NO_NAMESPACES = ("272", str(0xFFFFFFFF))


def shell(*commands: str) -> list[Any]:
    return [tool_call("bash", {"command": command}) for command in commands]


async def performed(
    folder: Path, script: list[Any], *, check: str | None = None, **config: object
) -> tuple[ToolResult, ScriptedModel]:
    """Return what the coder comes to that does as the script says, and the model's server."""
    with ScriptedModel(script) as server:
        os.environ.update(server.environment)
        request = Request("coder", "Go.", model=server.model, cwd=folder, check=check)
        named = {key.replace("__", "."): value for key, value in config.items()}
        result = await perform(request, Caller(os.environ, flags={**MAY_WRITE, **named}))
    return result, server


async def written(folder: Path, *commands: str, **more: Any) -> SingleResult:
    """Return the run of a coder that runs commands and answers."""
    result, _ = await performed(folder, [*shell(*commands), answer("Done.")], **more)
    assert result.completed, result.text
    return result.details.results[0]


def told(server: ScriptedModel) -> list[str]:
    return [str(one.messages[-1]["content"]) for one in server.requests[1:]]


def states(folder: Path) -> dict[str, Any]:
    """Everything of a tree that a run could change."""
    found: dict[str, Any] = {}
    for path in (folder, *folder.rglob("*")):
        of = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (of.st_mode, of.st_ino, of.st_mtime_ns, of.st_ctime_ns, content)
    return found


@pytest.fixture
def project(world: Path) -> Path:
    (world / "sub").mkdir()
    (world / "a.py").write_text("x = 1\n")
    (world / "sub/b.py").write_text("y = 1\n")
    (world / "link").symlink_to("a.py")
    return world


SPOILING = (
    "echo 2 >> a.py; rm -r sub; touch -d 2001-01-01 a.py; mkdir new; echo z > new/z",
    "git init -q . && git add -A && git -c user.name=x -c user.email=x@y commit -qm one; ls -a",
)


@pytest.mark.usefixtures("start")
@pytest.mark.parametrize("isolation", ["auto", "overlay", "copy"])
async def test_until_it_lands_the_users_tree_stays_as_it_is(project: Path, isolation: str) -> None:
    before = states(project)
    run = await written(project, *SPOILING, subagents__isolation=isolation)
    assert states(project) == before
    assert run.isolation is not None and run.changes is not None
    assert run.isolation.kind == ("copy" if isolation == "copy" else "overlay")
    assert run.isolation.missing == () and run.changes.state == "pending"
    kinds = {one.path: one.kind for one in run.changes.files}
    assert kinds == {"a.py": "modified", "new/z": "added", "sub/b.py": "deleted"}
    assert all(len(one.calls) == 1 for one in run.changes.files)
    assert [one.path for one in run.changes.withheld] == [".git"]


async def test_each_change_is_told_with_the_call_that_made_it(project: Path) -> None:
    script = [
        tool_call("edit", {"path": "a.py", "edits": [{"oldText": "1", "newText": "2"}]}),
        *shell("echo 3 >> a.py; touch c"),
        tool_call("read", {"path": "a.py"}),
        answer("Done."),
    ]
    result, server = await performed(project, script)
    changes = result.details.results[0].changes
    assert changes is not None
    calls = [
        call["id"] for one in server.requests[-1].messages for call in one.get("tool_calls", ())
    ]
    assert {one.path: one.calls for one in changes.files} == {
        "a.py": (calls[0], calls[1]),
        "c": (calls[1],),
    }
    assert (changes.added, changes.removed) == (2, 1)


async def test_in_place_it_changes_the_folder_itself_and_says_so(project: Path) -> None:
    run = await written(project, "echo 2 >> a.py", subagents__isolation="none")
    assert (project / "a.py").read_text() == "x = 1\n2\n"
    assert run.isolation is not None and run.isolation.kind == "none" and run.changes is None


async def test_writers_at_once_neither_disturb_each_other_nor_the_user(project: Path) -> None:
    before = states(project)
    runs = await asyncio.gather(*(written(project, f"echo {n} > a.py; cat a.py") for n in range(4)))
    assert states(project) == before
    for run in runs:
        assert run.changes is not None and [one.path for one in run.changes.files] == ["a.py"]
    assert len({run.changes.files[0].after for run in runs if run.changes}) == 4


def command(*arguments: str, cwd: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "outrider", *arguments]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=100, **more)


def test_a_coder_needs_leave_to_write_and_a_model_that_writes(project: Path) -> None:
    refused = command("run", "coder", "Go.", "-m", "openai-chat:x", cwd=project)
    assert refused.returncode == 2 and "--write" in refused.stderr
    assert "subagents.allowWrite" in refused.stderr
    refused = command("run", "coder", "Go.", "--write", "-m", "embedded", cwd=project)
    assert refused.returncode == 2 and "the embedded one can't" in refused.stderr
    with ScriptedModel([*shell("echo 2 >> a.py"), answer("Done.")]) as server:
        env = {**os.environ, **server.environment}
        done = command("run", "coder", "Go.", "--write", "-m", server.model, cwd=project, env=env)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert (project / "a.py").read_text() == "x = 1\n"


def test_where_there_are_no_namespaces_it_works_on_a_copy_or_is_refused(project: Path) -> None:
    before = states(project)
    for isolation, completes in (("auto", True), ("overlay", False)):
        with ScriptedModel([*shell("echo 2 >> a.py; pwd"), answer("Done.")]) as server:
            arguments = ("run", "coder", "Go.", "--write", "--json", "-m", server.model)
            arguments += ("--set", f"subagents.isolation={isolation}")
            line = [sys.executable, "-c", REFUSING, *NO_NAMESPACES, *arguments]
            env = {**os.environ, **server.environment}
            done = subprocess.run(line, cwd=project, env=env, capture_output=True, text=True)
        run = json.loads(done.stdout)["details"]["results"][0]
        assert (run["outcome"] == "completed") is completes, run
        if completes:
            assert run["isolation"]["kind"] == "copy"
            assert run["isolation"]["missing"][0] == "namespaces: Operation not permitted"
            assert [one["path"] for one in run["changes"]["files"]] == ["a.py"]
        else:
            assert "no layer can be put over" in run["error"]
            assert "subagents.isolation" in run["error"]
            assert not server.requests
    assert states(project) == before


async def test_a_layer_in_the_folder_that_it_would_lie_over_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(project / "state"))
    result, server = await performed(project, [answer("Done.")])
    assert "OUTRIDER_HOME" in result.text and not result.completed and not server.requests


async def test_an_answer_counts_once_its_check_passes(project: Path) -> None:
    script = [
        answer("I think I'm done."),
        *shell("echo fixed > fixed"),
        answer("Now I am."),
    ]
    result, server = await performed(project, script, check="echo it looks; cat fixed")
    run = result.details.results[0]
    assert (run.outcome, run.output) == (Outcome.COMPLETED, "Now I am.")
    assert run.check == {"command": "echo it looks; cat fixed", "exitCode": 0, "attempts": 2}
    said = told(server)[0]
    assert "failed with exit code 1" in said and "it looks" in said and "No such file" in said
    assert [one["exitCode"] for one in run.receipt["commands"]] == [1, 0, 0]


async def test_a_check_that_never_passes_is_the_end_and_lands_nothing(project: Path) -> None:
    script = [*shell("echo 2 >> a.py"), *(answer(f"Done {n}.") for n in range(9))]
    config = {"subagents__checkAttempts": 2, "subagents__land": "auto"}
    result, server = await performed(project, script, check="exit 7", **config)
    run = result.details.results[0]
    assert (run.outcome, run.exit_code, run.output) == (Outcome.CHECK_FAILED, 1, "Done 2.")
    assert run.check == {"command": "exit 7", "exitCode": 7, "attempts": 3}
    assert result.details.error is not None
    assert result.details.error.code == "SUBAGENT_CHECK_FAILED"
    assert len(server.requests) == 4
    assert run.changes is not None and run.changes.state == "pending"
    assert (project / "a.py").read_text() == "x = 1\n"


async def test_a_read_only_answer_is_checked_behind_the_same_walls(world: Path) -> None:
    before = states(world)
    with ScriptedModel([answer("Here.")]) as server:
        os.environ.update(server.environment)
        check = "echo x > spoilt; touch /etc/spoilt; true"
        request = Request("explorer", "Where?", model=server.model, cwd=world, check=check)
        result = await perform(request, Caller(os.environ))
    run = result.details.results[0]
    assert run.outcome is Outcome.COMPLETED and run.check is not None
    assert run.check["exitCode"] == 0 and states(world) == before


def test_a_repositorys_check_needs_trust_and_its_isolation_can_only_tighten() -> None:
    source = "---\nname: own\ncheck: make test\nisolation: none\n---\nx"
    agent, notes = parse_definition(source, "own.md", Source.PROJECT)
    assert agent is not None and agent.isolation == "auto" and agent.check == "make test"
    assert "only your own files can loosen it" in str(notes[0])
    agent, notes = parse_definition(source, "own.md", Source.USER)
    assert agent is not None and agent.isolation == "none" and not notes


async def test_the_check_of_a_repositorys_agent_runs_only_where_it_is_trusted(world: Path) -> None:
    agents = world / ".outrider/agents"
    agents.mkdir(parents=True)
    (agents / "own.md").write_text("---\nname: own\ncheck: exit 5\n---\nLook.\n")
    for trusted, outcome in (((), Outcome.COMPLETED), ((str(world),), Outcome.CHECK_FAILED)):
        with ScriptedModel([answer("Here.")], repeat=True) as server:
            os.environ.update(server.environment)
            request = Request("own", "Where?", model=server.model, cwd=world)
            flags = {"subagents.trustedProjects": trusted}
            result = await perform(request, Caller(os.environ, flags=flags))
        run = result.details.results[0]
        assert run.outcome is outcome
        assert any("its check isn't run" in one for one in run.warnings) is not trusted or trusted


async def test_with_auto_a_completed_run_lands_if_the_users_check_passes(project: Path) -> None:
    script = shell("echo 2 >> a.py")
    settings = {"subagents__land": "auto", "subagents__landCheck": "grep -q 3 a.py"}
    result, _ = await performed(project, [*script, answer("Done.")], **settings)
    changes = result.details.results[0].changes
    assert changes is not None and changes.state == "pending"
    assert "check failed with exit code 1" in changes.conflicts[0].reason
    assert (project / "a.py").read_text() == "x = 1\n"
    settings["subagents__landCheck"] = "grep -q 2 a.py"
    result, _ = await performed(project, [*script, answer("Done.")], **settings)
    changes = result.details.results[0].changes
    assert changes is not None and changes.state == "landed", changes
    assert (project / "a.py").read_text() == "x = 1\n2\n"


async def test_no_exit_code_of_a_check_gets_it_run_without_its_walls(project: Path) -> None:
    seen = f"ls {_runs()}/*/session.jsonl || exit 125"
    settings = {"subagents__land": "auto", "subagents__landCheck": seen}
    result, _ = await performed(project, [*shell("echo 2 >> a.py"), answer("Done.")], **settings)
    changes = result.details.results[0].changes
    assert changes is not None and changes.state == "pending"
    assert "check failed with exit code 125" in changes.conflicts[0].reason


@pytest.mark.parametrize(
    "spoil",
    [
        "ln -s {target} {folder}/command",
        "mkdir {folder}/command",
        "rmdir {folder}; ln -s {target}/.. {folder}",
    ],
)
async def test_what_a_command_puts_in_the_childs_way_leads_it_nowhere(
    project: Path, spoil: str
) -> None:
    folder, before = f"{_runs()}/*/spill/outrider-shell-*", states(project.parent / "home")
    commands: list[str] = []
    for number in range(3, 12):
        target = f"/proc/self/fd/{number}/../../../../home/forged"
        said = spoil.format(target=target, folder="$d")
        commands += [f"d=$(echo {folder}); rm -f $d/*; {said}", "echo forged", "true"]
    run = await written(project, *commands)
    assert states(project.parent / "home") == before
    assert run.changes is not None and run.changes.state == "none"


async def test_whoever_is_killed_the_layer_can_be_read_and_discarded(project: Path) -> None:
    before, seconds = states(project), str(200_000 + os.getpid())
    for victim in range(4):
        runs = {one.name for one in _runs().iterdir()} if _runs().exists() else set()
        work = [*shell(f"echo {victim} > killed; echo kept >> a.py"), *shell(f"sleep {seconds}")]
        running = asyncio.create_task(performed(project, [*work, answer("Done.")]))
        while not (found := _sleepers(seconds)):
            await asyncio.sleep(0.02)
            assert not running.done(), running.result()
        chain = [found[0], *found[0].parents()]
        of_run = chain[: [one.pid for one in chain].index(os.getpid())]
        of_run = [one for one in of_run if one.name() != "outrider-warm"]
        of_run[-1 - victim].kill()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(running, 60)
        (new,) = {one.name for one in _runs().iterdir() if one.is_dir()} - runs - {".landing"}
        shown = command("diff", new, "--json", cwd=project)
        assert shown.returncode == 0, shown.stderr
        assert {"a.py", "killed"} <= {one["path"] for one in json.loads(shown.stdout)["files"]}
        assert command("discard", new, cwd=project).returncode == 0
    assert states(project) == before


def _runs() -> Path:
    return Path(os.environ["OUTRIDER_HOME"]) / "runs"


def _sleepers(seconds: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline() == ["sleep", seconds]:
                found.append(process)
    return found


async def test_a_layer_that_grows_too_large_ends_the_run(project: Path) -> None:
    script = [*shell("head -c 3000000 /dev/zero > large"), answer("Done.")]
    result, server = await performed(project, script, runs__keepBytes=2_000_000)
    run = result.details.results[0]
    assert run.outcome is Outcome.OVER_BUDGET and "runs.keepBytes" in (run.error or "")
    assert len(server.requests) == 1 and not (project / "large").exists()


async def test_a_file_that_is_larger_than_a_layer_is_named_and_not_read(project: Path) -> None:
    script = [*shell("truncate -s 8T hollow; echo 2 >> a.py"), answer("Done.")]
    result, _ = await performed(project, script)
    changes = result.details.results[0].changes
    assert changes is not None and [one.path for one in changes.files] == ["a.py"]
    assert [(one.path, "runs.keepBytes" in one.reason) for one in changes.withheld] == [
        ("hollow", True)
    ]


DEEP = "import os\nfor _ in range(1_200):\n    os.mkdir('d'), os.chdir('d')\nopen('f', 'w').close()"
REMOVED = """
import os, shutil, sys
from outrider.records.runs import remove_folder
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(4242), os.setuid(4242)
os.makedirs(sys.argv[1] + "/a/locked/b")
open(sys.argv[1] + "/a/locked/file", "w").close()
os.chmod(sys.argv[1] + "/a/locked", 0)
remove_folder(sys.argv[1])
"""


async def test_a_layer_of_any_depth_is_told_and_removed(project: Path) -> None:
    run = await written(project, f"{sys.executable} -c \"$(cat <<'E'\n{DEEP}\nE\n)\"")
    assert run.changes is not None and len(run.changes.files) == 1
    (layer,) = _runs().glob("*/layer")
    done = command("discard", layer.parent.name, cwd=project)
    assert done.returncode == 0 and not layer.exists(), done.stderr


def test_a_folder_that_its_owner_cannot_enter_is_removed(tmp_path: Path) -> None:
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid():
            path.chmod(path.stat().st_mode | (0o777 if path == tmp_path else 0o011))
    folder = tmp_path / "run"
    subprocess.run([sys.executable, "-c", REMOVED, str(folder)], check=True)
    assert not folder.exists()


async def test_all_walls_hold_for_a_user_whose_home_is_the_root(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/")
    run = await written(project, "echo 2 >> a.py")
    assert run.isolation is not None and run.isolation.missing == ()


SDIST = "six==1.17.0"


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of a real package, with its tests."""
    folder = tmp_path_factory.mktemp("sdist")
    options = ("--no-deps", "--no-binary", ":all:", "-q", "-d", str(folder))
    line = [sys.executable, "-m", "pip", "download", *options, SDIST]
    with_pip = [*_outer_python(), "-m", "pip", "--python", sys.executable, "download", *options]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        done = subprocess.run([*with_pip, SDIST], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{SDIST} can't be downloaded: {done.stderr[-300:]}")
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        # Python 3.11.2, which Debian has, knows no filter.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, **safely)
    return next(path for path in folder.iterdir() if path.is_dir())


def _outer_python() -> list[str]:
    """The interpreter that made this environment, which may have no pip itself."""
    return [str(Path(sys.base_prefix) / "bin/python3")]


@pytest.mark.timeout(400)  # what it works on is installed first
async def test_a_real_change_is_checked_mended_landed_and_undone(world: Path, sdist: Path) -> None:
    shutil.copytree(sdist, world, dirs_exist_ok=True)
    tests = f"{sys.executable} -B -m pytest -q -p no:cacheprovider test_six.py -k metaclass"
    assert _pass(tests, world)
    before = states(world)
    spoilt = {"oldText": "def add_metaclass(", "newText": "def with_added_metaclass("}
    extra = {
        "oldText": "def ensure_binary(",
        "newText": "with_added_metaclass = add_metaclass\n\n\ndef ensure_binary(",
    }
    script = [
        tool_call("edit", {"path": "six.py", "edits": [spoilt]}),
        answer("I renamed it."),
        tool_call("edit", {"path": "six.py", "edits": [_swapped(spoilt), extra]}),
        answer("I kept the old name, and added the new one."),
    ]
    result, server = await performed(world, script, check=tests)
    run = result.details.results[0]
    assert run.outcome is Outcome.COMPLETED and run.check is not None and run.changes is not None
    assert (run.check["exitCode"], run.check["attempts"]) == (0, 2)
    assert "has no attribute 'add_metaclass'" in told(server)[1]
    assert [one.path for one in run.changes.files] == ["six.py"] and states(world) == before
    run_id = result.details.run_id or ""
    assert command("land", run_id, "--check", tests, cwd=world).returncode == 0
    assert "with_added_metaclass = add_metaclass" in (world / "six.py").read_text()
    assert _pass(tests, world)
    assert command("undo", run_id, cwd=world).returncode == 0
    content = {path: it[-1] for path, it in states(world).items()}
    assert content == {path: it[-1] for path, it in before.items()}
    modes = {path: it[0] for path, it in states(world).items()}
    assert modes == {path: it[0] for path, it in before.items()}


def _pass(tests: str, folder: Path) -> bool:
    """Whether tests pass, of which nothing is left."""
    done = subprocess.run(tests, shell=True, cwd=folder, capture_output=True)
    for leftover in folder.rglob("__pycache__"):
        shutil.rmtree(leftover)
    return done.returncode == 0


def _swapped(edit: dict[str, str]) -> dict[str, str]:
    return {"oldText": edit["newText"], "newText": edit["oldText"]}


LIMITED = "for one in pid mnt; do echo 0 > /proc/sys/user/max_${one}_namespaces; done"


@pytest.mark.parametrize(
    "before", [(), ("unshare", "-Ur", "sh", "-c", f'{LIMITED}; exec "$@"', "sh")]
)
async def test_a_check_of_a_landing_ends_with_whoever_lands_or_when_it_takes_too_long(
    project: Path, monkeypatch: pytest.MonkeyPatch, before: tuple[str, ...]
) -> None:
    """Also on a copy, without the namespaces that end with their first process."""
    result, _ = await performed(project, [*shell("echo 2 >> a.py"), answer("Done.")])
    run, seconds = result.details.run_id or "", str(300_000 + os.getpid())
    line = [sys.executable, "-m", "outrider", "land", run, "--check", f"sleep {seconds}; true"]
    landing = await asyncio.create_subprocess_exec(*before, *line, cwd=project)
    while not (found := _sleepers(seconds)):
        await asyncio.sleep(0.02)
    landing.kill()
    await landing.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, found, 30)
    assert not alive and (project / "a.py").read_text() == "x = 1\n"
    monkeypatch.setattr(merged_check, "MAX_CHECK_SECONDS", 0.5)
    writer = WriterRun(_runs() / run, os.environ)
    with pytest.raises(CheckFailed, match="124"):
        await asyncio.to_thread(writer.land, check=check_of(f"sleep {seconds}", os.environ))


SECRET = "sk-proj-Zx81kQpR0aB7dEfGh2JkLmN4oPqRsTuV"


@pytest.mark.parametrize("land", ["review", "auto"])
async def test_a_name_that_is_a_secret_is_in_no_result(project: Path, land: str) -> None:
    result, _ = await performed(
        project, [*shell(f"touch {SECRET} new"), answer("Done.")], subagents__land=land
    )
    changes = result.details.results[0].changes
    assert changes is not None and len(changes.files) == 2
    assert SECRET not in json.dumps(result.to_dict())
    assert SECRET not in (_runs() / (result.details.run_id or "") / "result.json").read_text()
