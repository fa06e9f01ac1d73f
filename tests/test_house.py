"""The plan of the house holds: questions lead to code, rooms keep apart, names stay private."""

import ast
import re
from pathlib import Path

import pytest

import outrider
from outrider.protocol.errors import OutriderError

SOURCE = Path(outrider.__file__).parent
DOCS = SOURCE.parent.parent / "docs"
ROW = re.compile(r"^\| (Where [^|]+\?) \| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)
QUESTIONS = ROW.findall((DOCS / "where.md").read_text())
MODULES = sorted(SOURCE.rglob("*.py"))
OTHERS = "reports/config.py reports/models.py reports/run_filters.py"
SIZES = {
    "the main agent's surface": (
        "surfaces/chat/*.py surfaces/cli/ask.py surfaces/cli/chat.py surfaces/reports/*.py",
        OTHERS,
        1_200,
    ),
    "MCP on stdio, in place of the SDK": (
        "surfaces/mcp/connection.py surfaces/mcp/wire.py",
        "",
        400,
    ),
    "the embedded model": ("models/embedded/*.py", "", 899),
}
"""Parts that stay readable in one sitting: their files, those that don't count, their lines."""


def test_there_are_forty_questions_and_no_two_alike() -> None:
    assert len({question for question, _, _ in QUESTIONS}) == len(QUESTIONS) >= 40


@pytest.mark.parametrize(("question", "file", "name"), QUESTIONS, ids=[q[0] for q in QUESTIONS])
def test_the_answer_to_a_question_is_where_the_table_says(
    question: str, file: str, name: str
) -> None:
    tree = ast.parse((SOURCE / file).read_text())
    assert name in set(_defined(tree)), f"{file} defines no {name}"


def _defined(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_private_name_is_used_across_rooms(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outrider."):
            other = (node.module or "").split(".")[1]
            private = [name.name for name in node.names if re.match("_(?!_)", name.name)]
            assert other == _room(path) or not private, f"{private} of {node.module}"


@pytest.mark.parametrize("part", SIZES)
def test_a_part_keeps_to_its_size(part: str) -> None:
    globs, others, most = SIZES[part]
    files = [path for glob in globs.split() for path in SOURCE.glob(glob)]
    counted = [path for path in files if not path.as_posix().endswith(tuple(others.split()))]
    lines = sum(path.read_text().count("\n") for path in counted)
    assert 0 < lines <= most, f"{part} has {lines} lines"


def test_every_exception_of_ours_stands_in_the_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", (SOURCE / "protocol/errors.py").read_text()))
    raised = {
        node.name
        for path in MODULES
        if _room(path) not in ("testing",)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if any(getattr(base, "id", "") == OutriderError.__name__ for base in node.bases)
    }
    assert raised == drawn


def test_no_public_exception_of_ours_is_outside_the_tree() -> None:
    """Private ones never leave their module; the scripted server stands beside the house."""
    outside = {
        f"{path.name}: {node.name}"
        for path in MODULES
        if _room(path) != "testing"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if any(getattr(base, "id", "") in ("Exception", "ValueError") for base in node.bases)
        and not any(getattr(base, "id", "") == "OutriderError" for base in node.bases)
    }
    assert outside == {"errors.py: OutriderError"}
