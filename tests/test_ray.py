"""Maps on a Ray cluster: on real nodes, in namespaces of their own, and what needs no cluster."""

import os
import pickle
import re
import socket
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli_door import Door
from conftest import needs
from outrider.delegation.map.cluster import files
from outrider.delegation.map.cluster.engine import ClusterEngine, ClusterNode
from outrider.delegation.map.cluster.files import packed, read_file, unpack, write_files
from outrider.delegation.map.cluster.records import arrived, packed_run
from outrider.delegation.map.engine import MapRow, Order
from outrider.delegation.perform import Caller
from outrider.delegation.preparation import prepare
from outrider.delegation.request import Request
from outrider.protocol.errors import Refusal
from outrider.workspaces.layers.user_git import UserGit
from ray_cluster import apart

HERE = Path(__file__).parent
WATCHED = """
import sys
if {missing}:
    sys.modules["ray"] = None
from outrider.__main__ import main
try:
    code = main()
except SystemExit as end:
    code = end.code
assert sys.modules.get("ray") is None, "it imports ray"
sys.exit(code)
"""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cases", ["ray_cases.py", "ray_faults.py"])
def test_maps_on_real_nodes(cases, tmp_path):
    needs("ip")
    pytest.importorskip("ray", reason="Ray isn't installed: pip install 'outrider[ray]'")
    words = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")
    command = (sys.executable, *words, "--basetemp", f"{tmp_path}/t", str(HERE / cases))
    options = {"capture_output": True, "cwd": HERE.parent, "timeout": 1700}
    ended = apart(*command, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture
def door(tmp_path):
    door = Door(tmp_path)
    (door.project / "items").write_text("One\n")
    return door


def run(door, *words, missing=False, **env):
    command = [sys.executable, "-c", WATCHED.format(missing=missing), *words]
    environment = door.environment(env)
    options = {"capture_output": True, "text": True, "timeout": 110}
    return subprocess.run(command, env=environment, cwd=door.project, **options)


@pytest.mark.parametrize(
    "words",
    [["--help"], ["agents"], ["runs"], ["map", "explorer", "items", "--dry-run"], ["config"],
     ["run", "explorer", "Where?", "-m", "embedded"],
     ["map", "explorer", "items", "--model", "embedded"]],
    ids=" ".join,
)  # fmt: skip
def test_no_other_command_imports_ray(door, words):
    ended = run(door, *words)
    assert "imports ray" not in ended.stderr and ended.returncode == 0, ended.stderr


def test_outrider_alone_requires_nothing_of_ray():
    required = metadata.requires("outrider")
    of_ray = [one for one in required if re.match(r"ray\b", one)]
    assert of_ray and all("extra ==" in one for one in of_ray)


@pytest.mark.parametrize("command", [["map", "explorer", "items"], ["doctor"]])
def test_without_ray_the_way_to_install_it_is_told(door, command):
    ended = run(door, *command, "--on", "ray", missing=True)
    assert ended.returncode == 2 and "pip install 'outrider[ray]'" in ended.stderr, ended.stderr


def test_an_address_where_no_cluster_is_is_told_in_bounded_time(door):
    pytest.importorskip("ray", reason="Ray isn't installed: pip install 'outrider[ray]'")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for address in (f"127.0.0.1:{port}", "nowhere"):
        words = (sys.executable, "-m", "outrider", "map", "explorer", "items", "--on", "ray")
        env = door.environment({"RAY_ADDRESS": address})
        options = {"capture_output": True, "text": True, "timeout": 60}
        ended = subprocess.run(words, env=env, cwd=door.project, **options)
        assert ended.returncode == 2, ended.stderr
        assert f"No Ray cluster answers at {address}" in ended.stderr
        assert "Check RAY_ADDRESS" in ended.stderr


def test_without_a_cluster_one_is_started_on_this_machine_and_ends_with_the_map(door, tmp_path):
    needs("ip")
    pytest.importorskip("ray", reason="Ray isn't installed: pip install 'outrider[ray]'")
    with tempfile.TemporaryDirectory(prefix="or") as place:  # sockets have short paths
        words = ("-m", "outrider", "map", "explorer", "items", "--on", "ray", "-m", "embedded")
        script = "ip link set lo up; \"$@\" && ! grep -lz '[r]aylet/raylet' /proc/[0-9]*/cmdline"
        env = door.environment({"RAY_TMPDIR": place})
        options = {"capture_output": True, "env": env, "cwd": door.project, "timeout": 110}
        ended = apart("sh", "-c", script, "sh", sys.executable, *words, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert '"outcome":"completed"' in ended.stdout


@pytest.mark.parametrize("words", [["--include", "x"], ["--on", "mars"]])
def test_what_names_no_cluster_is_refused(door, words):
    ended = run(door, "map", "explorer", "items", *words, missing=True)
    assert ended.returncode == 2 and ("--on" in ended.stderr), ended.stderr


# The folder


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def pack(folder, *include):
    return packed(folder, include, UserGit(folder, os.environ))


def names(parcel):
    return {path for path, _, _ in parcel.files}


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    return subprocess.check_output(["git", *who, *words], cwd=folder, text=True).strip()


def test_a_folder_without_git_travels_whole_but_for_credentials_and_what_is_no_file(folder):
    (folder / "sub").mkdir()
    for name in ("a", "sub/b", ".env", "sub/id_rsa"):
        (folder / name).write_text(name)
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/etc/passwd")
    parcel = pack(folder)
    assert names(parcel) == {"a", "sub", "sub/b", "link"}
    assert {path: content for path, _, content in parcel.files}["link"] == b"/etc/passwd"


def test_ignored_files_travel_only_if_they_are_asked_for(folder):
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("data/\n*.pem\n")
    (folder / "data").mkdir()
    (folder / "data/one").write_text("1")
    (folder / "data/key.pem").write_text("k")
    assert names(pack(folder)) == {".gitignore"}
    assert names(pack(folder, "data")) == {".gitignore", "data", "data/one"}
    with pytest.raises(Refusal, match="matches --include"):
        pack(folder, "../*")


def test_a_folder_that_is_too_large_is_refused_without_being_read(folder, monkeypatch):
    with open(folder / "sparse", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Refusal, match="too large to travel: more than 512 MiB"):
        pack(folder)
    (folder / "sparse").unlink()
    monkeypatch.setattr(files, "MAX_FOLDER_FILES", 3)
    for number in range(5):
        (folder / str(number)).write_text("")
    with pytest.raises(Refusal, match="3 files"):
        pack(folder)


def test_a_folder_that_became_a_link_is_not_followed(folder, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    (folder / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match=r".+"):
        read_file(folder, "sub/secret")


def test_nothing_is_written_through_a_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    link = ("sub", 0o120777, bytes(outside))
    with pytest.raises(OSError, match=r".+"):
        write_files(tmp_path / "new", [link, ("sub/file", 0o100644, b"x")])
    assert not list(outside.iterdir())


@pytest.mark.parametrize("is_shallow", [False, True])
def test_a_node_has_the_files_as_they_are_and_the_history(folder, tmp_path, is_shallow):
    git(folder, "init", "-q", "--initial-branch=work")
    for number in range(3):
        (folder / "a").write_text(str(number))
        git(folder, "add", ".")
        git(folder, "commit", "-qm", f"Commit {number}")
    if is_shallow:
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{folder}", "project2")
        folder = tmp_path / "project2"
    (folder / "a").write_text("mine\r\n")
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    (tmp_path / "there").mkdir()
    tree = unpack(pack(folder), tmp_path / "there")
    assert (tree / "a").read_bytes() == b"mine\r\n" and os.access(tree / "run", os.X_OK)
    assert git(tree, "log", "--format=%s") == git(folder, "log", "--format=%s")
    assert git(tree, "rev-parse", "HEAD") == git(folder, "rev-parse", "HEAD")
    assert git(tree, "branch", "--show-current") == "work"
    assert git(tree, "status", "--porcelain").split() == ["M", "a", "??", "run"]
    # Another map unpacks nothing.
    before = (tree / "a").stat().st_mtime_ns
    assert unpack(pack(folder), tmp_path / "there") == tree
    assert (tree / "a").stat().st_mtime_ns == before


def committed(folder, **contents):
    """Make a repository with one commit of these files."""
    git(folder, "init", "-q")
    for name, content in contents.items():
        (folder / name).write_text(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "First", "--allow-empty")


def there(folder, tmp_path, *include):
    """Return the folder as a node has it, by way of what Ray does to a parcel."""
    (tmp_path / "there").mkdir()
    return unpack(pickle.loads(pickle.dumps(pack(folder, *include))), tmp_path / "there")


def test_what_is_deleted_renamed_and_left_out_by_a_sparse_checkout_is_so_on_a_node(
    folder, tmp_path
):
    committed(folder, gone="1", old="2", kept="3")
    for sub in ("in", "out"):
        (folder / sub).mkdir()
        (folder / sub / "file").write_text(sub)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Second")
    git(folder, "sparse-checkout", "set", "in")
    (folder / "gone").unlink()
    git(folder, "mv", "old", "new")
    assert not (folder / "out").exists()
    tree = there(folder, tmp_path)
    shown = {*git(tree, "status", "--porcelain").splitlines()}
    assert shown == {"D gone", " D old", "?? new"}


def test_names_that_are_no_text_travel(tmp_path):
    folder = tmp_path / os.fsdecode(b"pro\xffject\n2")
    folder.mkdir()
    committed(folder)
    git(folder, "checkout", "-qb", b"br\xe9nch")
    names = [b"new\nline", b"\xff\xfe", b" space ", b"-n", b"*?[", b"\\", "ü".encode()]
    for name in names:
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_bytes(name)
    tree = there(folder, tmp_path)
    assert tree.name == folder.name
    assert {*os.listdir(bytes(tree))} == {*names, b".git"}
    for name in names:
        assert Path(os.fsdecode(bytes(tree) + b"/" + name)).read_bytes() == name
    assert git(tree, "rev-parse", "HEAD") == git(folder, "rev-parse", "HEAD")


def test_a_repository_without_commits_and_one_within_travel(folder, tmp_path):
    git(folder, "init", "-q")
    (folder / "a").write_text("a")
    (folder / "sub").mkdir()
    committed(folder / "sub", b="b")
    (folder / "sub/.gitignore").write_text("no")
    (folder / "sub/no").write_text("no")
    tree = there(folder, tmp_path)
    assert {str(one.relative_to(tree)) for one in tree.rglob("*")} == {
        "a", "sub", "sub/b", "sub/.gitignore",
    }  # fmt: skip


def test_a_submodule_travels_with_what_is_checked_out(folder, tmp_path):
    (tmp_path / "library").mkdir()
    committed(tmp_path / "library", code="1")
    committed(folder, a="a")
    git(folder, "submodule", "add", "-q", str(tmp_path / "library"), "lib")
    (folder / "lib/code").write_text("mine")
    tree = there(folder, tmp_path)
    assert (tree / "lib/code").read_text() == "mine"


def test_a_folder_that_changes_while_it_travels_travels_as_far_as_it_is_there(folder, monkeypatch):
    committed(folder, a="a", b="b", c="c")
    read = files.read_file

    def reading(root, path, most):
        (folder / "b").unlink(missing_ok=True)
        (folder / "d").write_text("too late to be listed")
        return read(root, path, most)

    monkeypatch.setattr(files, "read_file", reading)
    assert names(pack(folder)) == {"a", "c"}


def test_a_folder_with_too_many_files_is_refused_before_all_are_listed(folder, monkeypatch):
    monkeypatch.setattr(files, "MAX_FOLDER_FILES", 3)
    seen = []

    def endless(_root):
        for number in range(1_000):
            (folder / str(number)).write_text("")
            seen.append(number)
            yield str(number), None

    monkeypatch.setattr(files, "walk", endless)
    with pytest.raises(Refusal, match="too large to travel"):
        pack(folder)
    assert len(seen) < 10


def test_links_are_not_followed_to_find_what_is_included(folder):
    committed(folder, a="a")
    (folder / "loop").symlink_to(".")
    (folder / ".git/info/exclude").write_text("ignored\n")
    (folder / "ignored").mkdir()
    (folder / "ignored/x").write_text("x")
    found = names(pack(folder, "**/x"))
    assert found == {"a", "loop", "ignored/x"}
    for pattern in ("/etc/passwd", "..", ".", ""):
        with pytest.raises(Refusal, match="matches --include"):
            pack(folder, pattern)


# What comes back


REGULAR, LINK = 0o100644, 0o120777


@pytest.mark.parametrize(
    "hostile",
    [("../../evil", REGULAR, b"x"), ("a//b", REGULAR, b"x"), ("a/../../evil", REGULAR, b"x"),
     ("../evil", 0o040755, b""), ("..", LINK, b"/"), ("layer/upper/../../../evil", LINK, b"/"),
     ("output.txt", LINK, b"/etc/passwd"), ("layer", LINK, b"/etc"), ("", REGULAR, b"x")],
    ids=str,
)  # fmt: skip
def test_a_hostile_record_is_kept_nowhere(tmp_path, hostile):
    here = (str(tmp_path / "home/runs"), "/project", "~/project")
    row = MapRow("a", "completed", run_id="0123abcd")
    record = [("session.jsonl", REGULAR, b"{}\n"), hostile]
    with pytest.raises(OSError, match=r".+"):
        arrived(row, record, ("/node/runs", "/node/project", "~/p"), here)
    assert {*tmp_path.rglob("*")} <= {tmp_path / "home", tmp_path / "home/runs"}


@pytest.mark.parametrize("run_id", ["../../evil", "", ".", "x" * 300, "0123ABCD"])
def test_a_record_with_a_hostile_id_is_kept_nowhere(tmp_path, run_id):
    here = (str(tmp_path / "runs"), "/project", "~/project")
    with pytest.raises(OSError, match="no run's id"):
        arrived(MapRow("a", "completed", run_id=run_id), [], here, here)
    assert not [*tmp_path.iterdir()]


def test_a_record_brings_no_devices_and_no_rights_and_keeps_what_a_writer_linked(tmp_path):
    here = (str(tmp_path / "runs"), "/project", "~/project")
    record = [
        ("session.jsonl", 0o106755, b'{"type":"end"}\n'),
        ("disk", 0o060666, b""),
        ("layer", 0o047777, b""),
        ("layer/upper/link", LINK, b"/etc/passwd"),
    ]
    _, run = arrived(MapRow("a", "completed", run_id="0123abcd"), record, here, here)
    assert (run / "session.jsonl").stat().st_mode == 0o100755
    assert (run / "disk").is_file() and (run / "layer").stat().st_mode == 0o040777
    assert os.readlink(run / "layer/upper/link") == "/etc/passwd"


def test_a_ledger_does_not_lead_out_of_the_layer(tmp_path):
    run = tmp_path / "home/runs/0123abcd"
    (run / "layer/upper").mkdir(parents=True)
    (tmp_path / "home/secret").write_text("secret")
    (run / "layer/ledger.jsonl").write_text('{"path":"../../../../secret"}\n')
    assert (run / "layer/upper/../../../../secret").exists()
    with pytest.raises(OSError, match="isn't a path below"):
        packed_run(run)


def test_a_record_that_is_too_large_stays_on_the_node(tmp_path):
    (tmp_path / "0123abcd").mkdir()
    with open(tmp_path / "0123abcd/session.jsonl", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="too large"):
        packed_run(tmp_path / "0123abcd")


# Nodes that are lost


class Actor:
    """A node's actor that is lost as soon as it has an order."""

    def __init__(self):
        self.start = SimpleNamespace(remote=self._lost)

    async def _lost(self, _order):
        raise LookupError("The node died.")


async def test_an_item_that_loses_three_nodes_fails_and_none_waits_for_no_node(folder):
    os.environ["OPENAI_API_KEY"] = "any"
    prepared = await prepare(Request("explorer", "-", cwd=folder), env=os.environ)
    said = []
    engine = ClusterEngine(prepared, Caller(os.environ), said.append)
    killed = []
    errors = SimpleNamespace(RayActorError=LookupError)
    engine._ray = SimpleNamespace(exceptions=errors, kill=killed.append)
    engine.nodes = [ClusterNode(f"node {n}", Actor(), 1) for n in range(3)]
    actors = {node.actor for node in engine.nodes}
    order = Order("a", 1, Request("explorer", "One", cwd=str(folder)))
    news = []
    for _ in range(4):
        await engine.start(order)
        news += await engine.wait()
    assert [one.is_lost for one in news] == [True, True, False, False]
    assert {*killed} == actors and said[0].endswith("is lost: The node died.")
    failed, refused = news[2].row, news[3].row
    assert failed.outcome == "failed" and "lost 3 times" in failed.error.message
    assert refused.outcome == "refused" and "No node" in refused.error.message
