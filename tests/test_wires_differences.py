"""The table of wanted differences has no row that nothing needs."""

import re

import test_wires_answers
import test_wires_captured
import test_wires_parts
import test_wires_requests
import test_wires_statuses
import test_wires_streams
from wire_differences import WANTED, reason_for

NAMES = {
    *test_wires_answers.CASES,
    *(f"captured: {name}" for name in test_wires_captured.STREAMS),
    *test_wires_parts.CASES,
    *test_wires_parts.REPORTS,
    *test_wires_requests.CASES,
    *test_wires_requests.CONNECTIONS,
    *test_wires_statuses.CASES,
    *test_wires_statuses.REDIRECTS,
    *test_wires_streams.CASES,
}
GENERATED = ("*.", "ended ")
"""How the patterns begin of cases that `test_wires_broken.py` makes."""


def test_every_row_has_a_case() -> None:
    given = [one for cases in WANTED.values() for one in cases if not one.startswith(GENERATED)]
    patterns = [re.compile(".*".join(map(re.escape, one.split("*")))) for one in given]
    unused = [one.pattern for one in patterns if not any(map(one.fullmatch, NAMES))]
    assert not unused


def test_most_cases_mean_the_same() -> None:
    wanted = [name for name in NAMES if reason_for(name)]
    assert len(NAMES) > 1_000 and len(wanted) < len(NAMES) / 5
