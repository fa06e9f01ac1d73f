"""A landing and an undo are all or nothing: under SIGKILL, on a full disk, beside a user who saves.

`landing_sweep.py` does each again for every call that changes something.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from layer_door import Writer, tree
from outrider.workspaces.layers.landing import WriterRun

SWEEP = Path(__file__).parent / "landing_sweep.py"
FULL = """
import errno, os, sys
from pathlib import Path
from layer_door import Writer, tree
def refuses(verb):
    full = tree(place)
    try:
        verb()
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    else:
        raise AssertionError("it fits")
    assert tree(place) == full, "something was changed"


place, state = Path("disk").absolute(), Path("runs").absolute()
(place / "kept").write_bytes(os.urandom(100_000))
(place / "text").write_text("before\\n")
writer = Writer(state, place, "copy")
writer.do("echo after > text; for n in 1 2 3 4 5; do head -c 60000 /dev/urandom > $n; done")
before, run = tree(place), writer.end()
(place / "filler").write_bytes(bytes(150_000))
refuses(run.land)
(place / "filler").unlink()
assert tree(place) == before
run.land()
(place / "filler").write_bytes(bytes(os.statvfs(place).f_bavail * 4096))
refuses(writer.end().undo)
(place / "filler").unlink()
writer.end().undo()
assert tree(place) == before
"""


IMAGE = """
import os, sys
from pathlib import Path
from layer_door import Writer, tree
place, state = Path("merged").absolute(), Path("runs").absolute()
writer = Writer(state, place, "copy")
writer.do("rm -r package; rm -r other; echo file > other; echo more >> text")
before = tree(place)
writer.end().land()
assert set(tree(place)) == {"other", "text"}, tree(place)
writer.end().undo()
assert tree(place) == before
(place / "text").write_text("mine\\n")
writer.end().land(only=["package"])
"""
"""A folder that the lower layer of an overlay has can be removed and not moved."""


def in_namespace(place: Path, mount: str, script: str) -> None:
    (place / "script.py").write_text(script)
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", f"{mount} && exec {sys.executable} script.py"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(SWEEP.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_folders_of_a_containers_image_go_and_come_back(tmp_path: Path) -> None:
    for name in ("image/package/deep", "image/other", "upper", "work", "merged"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("package/deep/file", "other/file", "text"):
        (tmp_path / "image" / name).write_text("before\n")
    how = "lowerdir=image,upperdir=upper,workdir=work,userxattr"
    in_namespace(tmp_path, f"mount -t overlay overlay -o {how} merged", IMAGE)


@pytest.mark.parametrize("verb", ["land", "undo"])
@pytest.mark.parametrize("fault", ["kill", "kill_recovery", "full", "save"])
def test_the_folder_has_all_of_it_or_nothing(tmp_path: Path, verb: str, fault: str) -> None:
    done = subprocess.run(
        [sys.executable, SWEEP, tmp_path, verb, fault], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def test_a_disk_that_is_really_full_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    in_namespace(tmp_path, "mount -t tmpfs -o size=500k tmpfs disk", FULL)


def test_two_landings_on_one_folder_wait_for_each_other(tmp_path: Path) -> None:
    project, runs = tmp_path / "project", tmp_path / "runs"
    project.mkdir()
    (project / "shared").write_text("".join(f"{number}\n" for number in range(100)))
    scripts = [
        f"sed -i 's/^{number}$/changed/' shared; echo > new{number}" for number in (9, 50, 90)
    ]
    writers = [Writer(runs, project).do(script) for script in scripts]
    code = "import os, sys; from pathlib import Path; "
    code += "from outrider.workspaces.layers.landing import WriterRun; "
    code += "WriterRun(Path(sys.argv[1]), os.environ).land()"
    landing = [
        subprocess.Popen([sys.executable, "-c", code, writer.folder], stderr=subprocess.PIPE)
        for writer in writers
    ]
    for process in landing:
        with process:
            assert process.stderr is not None
            assert process.stderr.read() == b""
    assert (project / "shared").read_text().count("changed") == 3
    for writer in writers:
        WriterRun(writer.folder, os.environ).undo()
    assert set(tree(project)) == {"shared"}
    assert "changed" not in (project / "shared").read_text()
