"""Names, callers, entry points and named files: the embedded model's first place is the right one.

The five trees are packages of the development environment. `python -m benchmarks.newcomer_names`
asks the same kinds of questions about source packages that it downloads.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.newcomer_names import AIM, QUESTIONS, wrong

pytestmark = pytest.mark.usefixtures("unmeasured")
PACKAGES = ("rich", "click", "requests", "uvicorn", "starlette")


def test_the_first_place_is_the_right_one(tmp_path: Path) -> None:
    missed = dict[str, list[str]]()
    for name in PACKAGES:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        # As in a repository: the package is a folder of the tree.
        tree = tmp_path / name
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(spec.origin).parent, tree / name, ignore=ignored)
        missed[name] = wrong(tree, QUESTIONS[name])
    asked = sum(len(QUESTIONS[name]) for name in PACKAGES)
    assert asked == 40
    assert asked - sum(map(len, missed.values())) >= AIM, missed
