"""Maps on a Ray cluster: on real nodes, in namespaces of their own, and what needs no cluster."""

import os
import re
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli_door import Door
from conftest import needs
from outrider.delegation.map.cluster import files
from outrider.delegation.map.cluster.engine import ClusterEngine, ClusterNode
from outrider.delegation.map.cluster.files import packed, read_file, unpack, write_files
from outrider.delegation.map.engine import Order
from outrider.delegation.perform import Caller
from outrider.delegation.project import open_project
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


async def test_an_item_that_loses_three_nodes_fails_and_none_waits_for_no_node(folder):
    engine = ClusterEngine(None, open_project(folder), Caller(os.environ), folder, print)
    actor = SimpleNamespace(cancel=SimpleNamespace(remote=lambda _key: None))
    order = Order("a", 1, Request("explorer", "One"))
    for _ in range(3):
        node = ClusterNode("n", actor, 1, orders={"a": order})
        engine._lose(node, [order])
        assert node.late == {("a", 1)}  # what it still says of it doesn't count
    *lost, last = await engine.wait()
    assert [one.is_lost for one in lost] == [True, True]
    assert last.row.outcome == "failed" and "lost 3 times" in last.row.error.message
    engine._waiting.append(order)
    engine._assign()
    [news] = await engine.wait()
    assert news.row.outcome == "refused" and "No node" in news.row.error.message
