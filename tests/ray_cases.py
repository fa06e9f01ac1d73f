"""What `test_ray.py` runs in namespaces of their own: maps on the nodes of a cluster."""

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

import outrider
from outrider.testing import answer, silence, tool_call
from ray_cluster import HEAD, Cluster, children, environment, serving, wait_for_children, wait_until

KEYLESS = "10.77.0.3"
SECRET = "sk-live-4qHpB7zWn1Xc9Rt2"
pytestmark = pytest.mark.timeout(600)


class Script:
    """What the model answers now; each test sets its own."""

    def __init__(self):
        self.step = lambda _: answer("Done.")


@pytest.fixture(scope="module")
def script():
    return Script()


@pytest.fixture(scope="module")
def model(script):
    with serving(lambda request: script.step(request)) as model:
        yield model


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, model):
    """Two nodes with a key, one without, and one with another Outrider."""
    with closing(Cluster(tmp_path_factory.mktemp("c"), 4)) as cluster:
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        (cluster.project / "a.py").write_text("x = 1\n")
        (cluster.project / "b.py").write_text("y = 1\n")
        (cluster.project / ".gitignore").write_text("ignored*\n.env\n")
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "The first commit"]):
            subprocess.run([*git, *words], cwd=cluster.project, check=True)
        (cluster.project / "a.py").write_text("x = 'uncommitted'\n")
        (cluster.project / "new.py").write_text("z = 'untracked'\n")
        (cluster.project / "ignored.txt").write_text("ignored words\n")
        (cluster.project / ".env").write_text(f"KEY={SECRET}\n")
        (cluster.project / "out").symlink_to("/etc")
        env = environment(model) | {"DEPLOY_TOKEN": SECRET}
        other = cluster.place / "other/outrider"
        shutil.copytree(Path(outrider.__file__).parent, other)
        (other / "__init__.py").write_text(
            (other / "__init__.py").read_text().replace(outrider.__version__, "0.0.9", 1)
        )
        cluster.start_node(1, env)
        cluster.start_node(2, env)
        cluster.start_node(3, {})
        cluster.start_node(4, env | {"PYTHONPATH": str(other.parent)})
        yield cluster


@pytest.fixture(autouse=True)
def after(cluster, script):
    script.step = lambda _: answer("Done.")
    yield
    wait_for_children()


def items(cluster, count):
    path = cluster.project / "ignored-items"
    path.write_text("".join(f"Item {n}\n" for n in range(count)))
    return str(path)


def mapped(cluster, model, *words, count=3, journal, agent="explorer"):
    """Run a map of so many items, and return how it ended, and its rows."""
    words = ("map", agent, items(cluster, count), "--on", "ray", "--model", model.model, *words)
    ended = cluster.run(*words, "--journal", str(cluster.place / journal))
    return ended, [json.loads(line) for line in ended.stdout.splitlines()]


def texts_at_the_caller(cluster):
    """Return all that is in the caller's home."""
    files = [one for one in cluster.home(0).rglob("*") if one.is_file()]
    return b"".join(one.read_bytes() for one in files)


def used(request):
    """Return what the last tool call returned."""
    return str(request.messages[-1]["content"])


def test_each_item_has_a_row_and_a_record_and_nodes_that_cannot_work_are_named(cluster, model):
    before = len(model.requests)
    ended, rows = mapped(cluster, model, count=12, journal="rows")
    assert ended.returncode == 0, ended.stderr
    assert {row["task"] for row in rows} == {f"Item {n}" for n in range(12)}
    assert len(model.requests) == before + 12
    assert f"{KEYLESS}/" in ended.stderr and "no item" in ended.stderr
    assert "OPENAI_API_KEY" in ended.stderr
    assert "Outrider 0.0.9 instead of" in ended.stderr
    shown = cluster.run("show", rows[0]["runId"])
    assert "Done." in shown.stdout, shown.stderr
    listed = json.loads(cluster.run("runs", "--json").stdout)
    assert {row["runId"] for row in rows} <= {one["runId"] for one in listed["runs"]}
    assert not [one for one in listed["runs"] if one.get("recordProblem")]
    watched = cluster.run("watch", rows[0]["runId"])
    assert watched.returncode == 0 and "Done." in watched.stdout + watched.stderr
    again, same = mapped(cluster, model, count=12, journal="rows")
    assert len(model.requests) == before + 12 and len(same) == 12, again.stderr


def test_the_folder_travels_with_what_is_not_committed_and_without_what_is_secret(
    cluster, model, script
):
    asked = ["a.py", "new.py", "ignored.txt", ".env", "out/passwd", ".git/HEAD"]
    found = {}

    def step(request):
        if request.turn:
            found.setdefault(request.last_user_text, used(request))
            return answer("Done.")
        number = int(request.last_user_text.split()[1])
        return tool_call("read", {"path": asked[number]})

    script.step = step
    ended, _ = mapped(cluster, model, count=5, journal="folder")
    assert ended.returncode == 0, ended.stderr
    assert "uncommitted" in found["Item 0"] and "untracked" in found["Item 1"]
    assert "1003" in found["Item 2"] or "not found" in found["Item 2"].lower()
    assert SECRET not in str(found) and "root:" not in found["Item 4"]
    found.clear()
    ended, _ = mapped(cluster, model, "--include", "ignored.t*", count=3, journal="included")
    assert ended.returncode == 0 and "ignored words" in found["Item 2"], ended.stderr
    trees = [*cluster.place.glob("home[1-4]/.local/state/outrider/cluster/folders/*/*")]
    assert trees and not [one for one in trees if (one / ".env").exists()]
    history = ["git", "-C", str(trees[0]), "log", "--format=%s"]
    assert subprocess.check_output(history, text=True) == "The first commit\n"
    status = ["git", "-C", str(trees[0]), "status", "--porcelain"]
    assert {" M a.py", "?? new.py"} <= {*subprocess.check_output(status, text=True).splitlines()}


def test_no_key_of_a_node_reaches_the_caller(cluster, model, script):
    def step(request):
        if request.turn:
            return answer(f"It says {used(request)} and {SECRET}")
        return tool_call("bash", {"command": "env; tr '\\0' '\\n' < /proc/$PPID/environ; true"})

    script.step = step
    ended, rows = mapped(cluster, model, "--write", count=2, journal="keys", agent="coder")
    assert ended.returncode == 0, ended.stderr
    key = model.environment["OPENAI_API_KEY"]
    everything = texts_at_the_caller(cluster) + ended.stdout.encode() + ended.stderr.encode()
    assert rows[0]["runId"].encode() in everything
    assert SECRET.encode() not in everything and key.encode() not in everything


def test_what_writers_change_comes_back_and_lands_at_the_caller(cluster, model, script):
    def step(request):
        number = request.last_user_text.split()[1]
        command = f"echo 'w = {number}' > w{number}.py; echo '# {number}' >> b.py; rm new.py"
        return answer("Done.") if request.turn else tool_call("bash", {"command": command})

    script.step = step
    ended, rows = mapped(cluster, model, "--write", count=2, journal="review", agent="coder")
    assert ended.returncode == 0, ended.stderr
    assert not (cluster.project / "w0.py").exists() and (cluster.project / "new.py").exists()
    diff = cluster.run("diff", rows[0]["runId"])
    assert "+# " in diff.stdout and "new.py" in diff.stdout, diff.stderr
    landed = cluster.run("land", rows[0]["runId"])
    assert landed.returncode == 0, landed.stderr
    assert not (cluster.project / "new.py").exists()
    assert (cluster.project / "b.py").read_text().startswith("y = 1\n# ")
    undone = cluster.run("undo", rows[0]["runId"])
    assert undone.returncode == 0, undone.stderr
    assert (cluster.project / "b.py").read_text() == "y = 1\n"
    assert (cluster.project / "new.py").exists()

    def own(request):
        command = f"echo 'w' > w{request.last_user_text.split()[1]}.py"
        return answer("Done.") if request.turn else tool_call("bash", {"command": command})

    script.step = own
    words = ("--write", "--set", "subagents.land=auto")
    ended, rows = mapped(cluster, model, *words, count=6, journal="auto", agent="coder")
    assert ended.returncode == 0, ended.stderr
    files = [cluster.project / f"w{n}.py" for n in range(6)]
    assert all(one.read_text() == "w\n" for one in files)
    for one in files:
        one.unlink()


def test_an_agent_that_writes_in_place_is_refused(cluster, model):
    words = ("--write", "--set", "subagents.isolation=none")
    ended, _ = mapped(cluster, model, *words, journal="in-place", agent="coder")
    assert ended.returncode == 2 and "can't change files in place" in ended.stderr


def test_ctrl_c_twice_ends_all_children_within_five_seconds(cluster, model, script):
    script.step = lambda _: silence()
    before = len(model.requests)
    words = ("map", "explorer", items(cluster, 20), "--on", "ray", "--model", model.model)
    words += ("--concurrency", "20")  # more than there are places
    process = cluster.start(*words, "--journal", str(cluster.place / "cancelled"))
    wait_until(lambda: len(model.requests) >= before + 8, "eight requests")
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: not children(), "the end of all children")
    assert time.monotonic() - begun < 5
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "The same command goes on" in err, err


@pytest.mark.parametrize(
    ("harm", "why"), [("suspend", "it doesn't answer"), ("kill", "The actor died unexpectedly")]
)
def test_a_node_whose_actor_is_gone_is_told_and_its_items_are_done_elsewhere(
    cluster, model, script, harm, why
):
    script.step = lambda _: answer("Done.", delay=0.3)
    before = len(model.requests)
    journal, told = cluster.place / harm, cluster.place / "told"
    words = ["map", "explorer", items(cluster, 40), "--on", "ray", "--model", model.model]
    program = f"""
import sys
from outrider.__main__ import main
from outrider.delegation.map.cluster import engine
engine.ANSWER_SECONDS = {8 if harm == "suspend" else 60}
sys.argv[1:] = {[*words, "--journal", str(journal)]!r}
sys.exit(main())
"""
    with open(told, "w") as file:
        process = cluster.start(program=program, stderr=file)
        wait_until(lambda: len(model.requests) >= before + 12, "twelve requests")
        actor = actor_of(cluster, 2)
        getattr(actor, harm)()
        out, _ = process.communicate(timeout=240)
    rows = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0, told.read_text()
    assert len(rows) == len({row["id"] for row in rows}) == 40
    ends = [json.loads(line) for line in journal.read_bytes().splitlines() if b'{"end"' in line]
    assert len(ends) == 40
    assert f"is lost: {why}" in told.read_text()
    wait_until(lambda: not actor.is_running(), "the end of the actor")


def test_a_node_that_has_no_room_gives_its_items_to_others(cluster, model):
    for folder, said in (
        ("runs", "is lost: The run can't be recorded"),
        ("folders", "gets no item"),
    ):
        place = cluster.home(2) / ".local/state/outrider/cluster" / folder
        place.mkdir(parents=True, exist_ok=True)
        kept = place.rename(place.with_suffix(".kept"))
        place.write_text("")  # root isn't kept from a folder that is read-only
        ended, rows = mapped(cluster, model, count=12, journal=f"no-{folder}")
        place.unlink()
        kept.rename(place)
        assert ended.returncode == 0 and len(rows) == 12, ended.stderr
        assert "10.77.0.2/" in ended.stderr and said in ended.stderr, ended.stderr


def actor_of(cluster, node):
    """Return the process of a node's actor that is at work."""
    home = str(cluster.home(node))
    for process in psutil.process_iter():
        if process.name().startswith("ray::NodeActor") and process.environ()["HOME"] == home:
            return process
    raise AssertionError("no actor is at work")


def test_two_maps_share_the_places_of_a_cluster(cluster, model, script):
    at_once = []

    def step(_):
        at_once.append(model._answering)
        return answer("Done.", delay=0.5)

    script.step = step
    words = ("map", "explorer", items(cluster, 24), "--on", "ray", "--model", model.model)
    both = [cluster.start(*words, "--journal", str(cluster.place / name)) for name in ("x", "y")]
    for process in both:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0 and len(out.splitlines()) == 24, err
    assert max(at_once) <= 8


def test_a_program_maps_on_the_cluster_and_through_a_client(cluster, model):
    program = f"""
import asyncio, outrider
async def main():
    work = outrider.map("explorer", ["a", "b"], model={model.model!r}, on={{!r}})
    print([row.outcome for row in await work.gather()])
asyncio.run(main())
"""
    for on in ("ray", f"ray://{HEAD}:10001"):
        env = cluster.environment(0, {"RAY_ADDRESS": f"{HEAD}:6379"})
        words = [sys.executable, "-c", program.format(on)]
        done = subprocess.run(
            words, env=env, cwd=cluster.project, text=True, capture_output=True, timeout=240
        )
        assert done.stdout == "['completed', 'completed']\n", done.stderr


def test_doctor_tells_of_each_node_and_names_its_keys_only(cluster, model):
    ended = cluster.run("doctor", "--on", "ray")
    lines = [line for line in ended.stdout.splitlines() if "10.77.0." in line]
    assert len(lines) == 4, ended.stdout + ended.stderr
    by_node = {line.split("10.77.0.")[1][0]: line for line in lines}
    assert "4 of 4 places free" in by_node["1"] and "OPENAI_API_KEY" in by_node["1"]
    assert "no key" in by_node["3"] and "0.0.9 instead of" in by_node["4"]
    assert model.environment["OPENAI_API_KEY"] not in ended.stdout
