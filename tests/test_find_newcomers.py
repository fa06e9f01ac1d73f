"""Questions that a newcomer asks, written before looking: the right file is among the first three.

Ten of the forty are in Chinese. The foreign trees are packages of the development environment.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from outrider.tools.context import ToolContext
from outrider.tools.files.find import find

pytestmark = pytest.mark.usefixtures("unmeasured")

QUESTIONS = json.loads(Path(__file__).with_name("newcomer_questions.json").read_text())
MIN_RIGHT = 34


def answered(package: str, question: str) -> list[str]:
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    context = ToolContext(Path(spec.origin).parent)
    return [place["path"] for place in find(context, about=question, limit=3)["places"]]


def test_a_newcomer_finds_the_right_file_among_the_first_three() -> None:
    asked = [(package, *one) for package, rows in QUESTIONS.items() for one in rows]
    wrong = {
        question: found
        for package, question, right in asked
        if not set(right).intersection(found := answered(package, question))
    }
    assert len(asked) == 40
    assert sum(not question.isascii() for _, question, _ in asked) == 10
    assert len(asked) - len(wrong) >= MIN_RIGHT, wrong
