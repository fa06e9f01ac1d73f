"""The plan of the house holds: questions lead to code, rooms keep apart, names stay private."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import outrider
from outrider.protocol.errors import OutriderError

SOURCE = Path(outrider.__file__).parent
DOCS = SOURCE.parent.parent / "docs"
ROW = re.compile(r"^\| (Where [^|]+\?) \| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)
QUESTIONS = ROW.findall((DOCS / "where.md").read_text())
MODULES = sorted(SOURCE.rglob("*.py"))
OTHERS = "reports/config.py reports/models.py reports/runs.py"
SIZES = {
    "the main agent's surface": (
        "surfaces/chat/*.py surfaces/cli/ask.py surfaces/cli/chat.py surfaces/reports/*.py",
        OTHERS,
        1_230,
    ),
    "MCP on stdio, in place of the SDK": (
        "surfaces/mcp/connection.py surfaces/mcp/handshake.py",
        "",
        400,
    ),
    "the embedded model": ("models/embedded/*.py", "", 899),
}
"""Parts that stay readable in one sitting: their files, those that don't count, their lines."""


def test_there_are_at_least_forty_questions_and_no_two_alike() -> None:
    assert len({question for question, _, _ in QUESTIONS}) == len(QUESTIONS) >= 40


def test_the_answer_to_a_question_is_where_the_table_says() -> None:
    defined = {
        file: set(_defined(ast.parse((SOURCE / file).read_text()))) for _, file, _ in QUESTIONS
    }
    missing = [
        f"{file} defines no {name}" for _, file, name in QUESTIONS if name not in defined[file]
    ]
    assert not missing


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


def test_no_private_name_is_used_across_rooms() -> None:
    used = [
        f"{path.relative_to(SOURCE)}: {name.name} of {node.module}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outrider.")
        if (node.module or "").split(".")[1] != _room(path)
        for name in node.names
        if re.match("_(?!_)", name.name)
    ]
    assert not used


def test_frozen_data_is_made_with_our_own_decorator() -> None:
    """With the standard one each class takes half a millisecond, in every process that loads it."""
    own = ("testing", "texts")  # which know nothing of the protocol
    slow = [
        str(path.relative_to(SOURCE))
        for path in MODULES
        if _room(path) not in own and "@dataclass(frozen=True, slots=True)\n" in path.read_text()
    ]
    assert slow == ["tools/context.py"]  # whose `__init__` doesn't take all of its fields


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


def test_every_public_class_and_function_has_a_name_of_its_own() -> None:
    """But for those that the glossary lists, which are the same idea each time."""
    listed = (DOCS / "glossary.md").read_text().partition("## Names that stand in several")[2]
    defined: dict[str, set[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                defined.setdefault(node.name, set()).add(str(path.relative_to(SOURCE)))
    shared = {
        name: files
        for name, files in defined.items()
        if len(files) > 1 and not name.startswith("_")
    }
    assert set(shared) == set(re.findall(r"^\| `(\w+)` \|", listed, re.MULTILINE)), shared


def test_the_contract_of_imports_names_every_room() -> None:
    """`exhaustive` makes import-linter fail where a new room isn't in it."""
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["tool"]["importlinter"]
    (rooms,) = (one for one in contracts["contracts"] if one["name"].startswith("The rooms"))
    assert rooms["containers"] == ["outrider"] and rooms["exhaustive"] is True
