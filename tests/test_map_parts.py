"""The parts of a map, without a child: items, templates, the purse, the pace, the journal."""

import io
import json
import math
import os
import time
from pathlib import Path

import pytest

from outrider.delegation.map.engine import MapRow
from outrider.delegation.map.items import (
    check_template,
    filled,
    given_values,
    items_of,
    read_csv,
    read_lines,
)
from outrider.delegation.map.journal import Journal, JournalLost, journal_path
from outrider.delegation.map.purse import Pace, Purse
from outrider.delegation.request import MAX_TASK_BYTES
from outrider.protocol.data import to_json
from outrider.protocol.errors import Refusal
from outrider.protocol.usage import Usage


def lines(data: bytes, template=None):
    return [one for one in items_of(read_lines(io.BytesIO(data), "x"), template) if one]


def rows(data: bytes, template=None):
    return [one for one in items_of(read_csv(io.BytesIO(data), "x"), template) if one]


def test_a_line_is_a_task_or_a_json_object():
    found = lines(b'Where?\n{"id": 7, "task": "Why?", "agent": "tester", "schema": {}}\n')
    assert [(one.task, one.agent, one.schema) for one in found] == [
        ("Where?", None, None),
        ("Why?", "tester", {}),
    ]
    assert found[1].key == "7"


def test_marks_line_ends_and_empty_lines_are_no_part_of_an_item():
    plain = lines(b"One\nTwo\n")
    assert lines(b"\xef\xbb\xbfOne\r\n\r\n  \nTwo") == plain


def test_a_bad_line_is_one_bad_item():
    huge = b"x" * (MAX_TASK_BYTES + 5)
    found = lines(b'{"task": \n' + huge + b'\n{"id": [], "task": "a"}\n{"path": "b"}\nGood\n')
    problems = [one.problem for one in found]
    assert "line 1: It isn't JSON" in problems[0]
    assert "line 2: It is longer than 4,194,304 bytes" in problems[1]
    assert "id must be a string or a number, not a list" in problems[2]
    assert "line 4: There is no task, only path. Add one, or" in problems[3]
    assert problems[4] is None and found[4].task == "Good"


def test_what_is_wrong_with_an_item_is_said_and_where():
    found = lines(
        b'{"task": null}\n{"id": true, "task": "a"}\n{}\n'
        b'{"task": "a", "cwd": 3}\n{"task": "a", "schema": "{"}\n{"id": 1\n'
    )
    for item, said in zip(
        found,
        [
            "line 1: task must be a string, not null",
            "line 2: id must be a string or a number, not a boolean",
            "line 3: There is no task",
            "cwd must be a string, not a number",
            "schema isn't JSON",
            "It isn't JSON",
        ],
        strict=True,
    ):
        assert said in item.problem


@pytest.mark.parametrize("data", [b'[\n{"task": "a"}\n]\n', b'[{"task": "a"}]', b'{\n"task": "a"}'])
def test_a_file_that_is_one_json_value_is_refused_as_a_whole(data):
    with pytest.raises(Refusal, match=r"x is one JSON value\. Write each item"):
        lines(data)


def test_ids_are_told_apart_to_their_last_character_and_may_be_any_number():
    long = "x" * 5000
    found = lines(json.dumps({"id": f"{long}1", "task": "a"}).encode() + b"\n") + lines(
        json.dumps({"id": f"{long}2", "task": "a"}).encode() + b'\n{"id": 1.5, "task": "a"}\n'
    )
    assert [one.key for one in found] == [f"{long}1", f"{long}2", "1.5"]
    assert [one.problem for one in found] == [None] * 3


@pytest.mark.parametrize("key", ["a/../b", "a\nb", "\u202eabc", "-", "a b", "é"])
def test_an_id_is_kept_as_it_is(key):
    [found] = lines(json.dumps({"id": key, "task": "a"}).encode())
    assert (found.key, found.problem) == (key, None)


def test_text_with_a_bracket_is_a_task():
    assert [one.task for one in lines(b"[bug] Why?\n42\n")] == ["[bug] Why?", "42"]


def test_a_line_that_is_not_utf_8_is_refused_later_and_does_not_stop_the_rest():
    assert [one.problem for one in lines(b"caf\xe9\nGood\n")] == [None, None]


def test_items_are_known_by_their_content_wherever_they_stand():
    first, second = (one.key for one in lines(b"One\nTwo\n"))
    assert [one.key for one in lines(b"New\nTwo\nOne\n")][1:] == [second, first]


def test_the_same_line_twice_is_two_items_and_the_same_id_twice_a_fault():
    keys = [one.key for one in lines(b"One\nOne\nOne\n")]
    assert keys == [keys[0], f"{keys[0]}-2", f"{keys[0]}-3"]
    found = lines(b'{"id": "a", "task": "1"}\n{"id": "a", "task": "2"}\n')
    assert found[0].problem is None and found[1].key == "x, line 2"
    assert "line 2: The id 'a' is in use by an earlier item." in found[1].problem


def test_no_two_items_have_one_key_whatever_their_ids_are():
    [one] = lines(b"One\n")
    own = json.dumps({"id": f"{one.key}-2", "task": "own"}).encode()
    found = lines(b"One\n" + own + b"\nOne\nOne\n")
    assert [item.key for item in found] == [one.key, *(f"{one.key}-{n}" for n in (2, 3, 4))]
    found = lines(b"One\nOne\n" + own + b"\n" + json.dumps({"id": one.key}).encode())
    assert [item.key for item in found[:2]] == [one.key, f"{one.key}-2"]
    assert all("in use by an earlier item" in item.problem for item in found[2:])


@pytest.mark.parametrize(
    ("depth", "template", "said"),
    [(1000, None, ""), (1000, "{x}", "It is nested too deeply."), (99_999, "{x}", "isn't JSON")],
)
def test_an_item_that_is_nested_too_deeply_is_one_bad_item(depth, template, said):
    deep = b'{"task": "a", "x": ' + b"[" * depth + b"]" * depth + b"}"
    bad, good = lines(deep + b'\n{"task": "b", "x": "b"}\n', template)
    assert said in (bad.problem or "") and good.task == "b"


def test_a_csv_row_is_an_item_with_the_fields_of_the_first_row():
    found = rows(
        b'\xef\xbb\xbfid,path,why\r\n1,a.py,"bugs, ""odd"" ones\nand more"\r\n', "{path}: {why}"
    )
    assert [(one.key, one.task) for one in found] == [("1", 'a.py: bugs, "odd" ones\nand more')]


def test_a_csv_row_with_other_cells_is_one_bad_item():
    found = rows(b"task,model\nOne,m\nTwo\nThree,m,x\nFour,\n")
    assert [one.task for one in found if not one.problem] == ["One", "Four"]
    assert "row 3: It has 1 cells, and the first row has 2." in found[1].problem


def test_a_csv_cell_keeps_its_lines_as_they_are():
    [found] = rows(b'task\r\n"def f():\r\n    return 1\r\n\r\n"\r\n')
    assert found.task == "def f():\n    return 1\n\n"


def test_a_csv_row_that_is_too_long_is_one_bad_item():
    huge = b"x" * (MAX_TASK_BYTES + 5)
    found = rows(b"task\nOne\n" + huge + b'\nTwo\n"not closed\n')
    assert [one.task for one in found if not one.problem][:2] == ["One", "Two"]
    said = "x, row 3: It isn't CSV: It is longer than 4,194,304 bytes."
    assert found[1].problem == said


def test_a_csv_file_may_grow_between_its_rows_and_in_one(tmp_path):
    path = tmp_path / "items.csv"
    path.write_bytes(b'task\nOne\n"Tw')
    with open(path, "rb") as file, open(path, "ab", buffering=0) as more:
        found = items_of(read_csv(file, "x"), None)
        assert next(found).task == "One"
        assert next(found) is None
        more.write(b'o\nlines"\n')
        assert next(found).task == "Two\nlines"
        assert next(found) is None
        more.write(b"Three\n")
        assert [one.task for one in found if one] == ["Three"]


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(Refusal, match=r"two columns of one name in id, path, path\. Rename one"):
        rows(b"id,path,path\n1,a,b\n")


def test_items_of_a_program_are_texts_and_mappings():
    found = list(items_of(given_values(["One", {"n": 3}, 4, {"n": None}]), "{n}"))
    assert "The task needs {n}" in found[0].problem
    assert found[1].task == "3" and found[3].task == "null"
    assert "not a number" in found[2].problem


@pytest.mark.parametrize("text", ['Return {"a": 1}', "{", "}", "{}", "a {b", "{ x }"])
def test_a_template_with_a_lone_brace_is_refused(text):
    with pytest.raises(Refusal, match=r"\{\{ and \}\} for braces"):
        check_template(text)


def test_a_template_fills_fields_and_names_the_nearest_to_a_missing_one():
    template = check_template("{{{path}}} {Issue Title}")
    assert filled(template, {"path": "a{path}", "Issue Title": "x"}) == "{a{path}} x"
    assert filled("{a.b.c} {a.b}", {"a": {"b": {"c": 1}}, "a.b": "own"}) == "1 own"
    with pytest.raises(ValueError, match=r"The task needs \{c\}, and there is only d."):
        filled("{a.c}", {"a": {"d": 1}})
    with pytest.raises(ValueError, match=r"Did you mean \{paths\}\?"):
        filled(template, {"paths": 1, "Issue Title": ""})


def test_a_last_line_without_an_end_is_read_again_before_it_counts(tmp_path):
    path = tmp_path / "items"
    path.write_bytes(b"One\nTw")
    with open(path, "rb") as file:
        found = items_of(read_lines(file, "x"), None)
        assert next(found).task == "One"
        assert next(found) is None
        with open(path, "ab") as more:
            more.write(b"o\nThree")
        assert next(found).task == "Two"
        assert next(found) is None
        assert [one.task for one in found if one] == ["Three"]


def test_the_purse_gives_no_more_than_it_has_and_takes_back_what_is_left():
    purse = Purse((1.0, math.inf), (0.4, math.inf))
    assert purse.reserve("a") == purse.reserve("b") == (0.4, math.inf)
    assert purse.reserve("c") is None
    purse.settle("a", Usage(input=1, cost=0.1))
    assert purse.reserve("c") == (0.4, math.inf)
    purse.settle("b", Usage(input=1, cost=0.5))  # passed by its last request
    purse.settle("c", Usage(input=1, cost=0.3))
    assert purse.reserve("d") == (pytest.approx(0.1), math.inf)
    purse.settle("d", Usage(input=9, cost_known=False))  # as if it had used all of it
    assert purse.reserve("e") is None


def test_a_purse_without_limits_gives_without_end():
    purse = Purse()
    assert {purse.reserve(str(number)) for number in range(100)} == {(math.inf, math.inf)}


def test_the_pace_halves_once_for_a_limit_that_many_run_into_and_comes_back():
    pace = Pace(16)
    assert pace.allowed(0) == 16
    for _ in range(16):
        pace.slow_down(10, 5)
    assert pace.allowed(14) == 0 and pace.allowed(15) == 8
    pace.slow_down(20, 1)
    assert pace.allowed(21) == 4
    for _ in range(5):
        pace.speed_up()
    assert pace.allowed(21) == 5
    for _ in range(500):
        pace.speed_up()
    assert pace.allowed(21) == 16


def test_a_journal_that_was_cut_anywhere_keeps_what_is_whole(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal(path, {"agent": "a"}) as journal:
        for key in "xy":
            journal.add({"start": key, "attempt": 1, "again": True})
            row = to_json(MapRow(key, "completed", output="ü" * 5))
            journal.add({"end": key, "attempt": 1, "row": row})
    whole = path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 10]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with Journal(path, {"agent": "a"}) as journal:
            done = [key for key in "xy" if journal.entry(key).outcome]
            assert done == list("xy")[: sum(size >= ends[index] for index in (2, 4))]
            assert [journal.row(key).output for key in done] == ["ü" * 5] * len(done)
            journal.add({"start": "z", "attempt": 1, "again": True})
        assert all(map(json.loads, path.read_bytes().splitlines()))


def test_a_line_that_the_disk_has_lost_is_passed_over(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal(path, {}) as journal:
        journal.add({"start": "x", "attempt": 1, "again": False})
    with open(path, "ab") as file:
        file.write(b"\0" * 50 + b"\n" + b'{"end":"x","attempt":1,"row":{"outcome":"failed"}}\n')
    with Journal(path, {}) as journal:
        assert journal.entry("x").outcome == "failed"


@pytest.mark.parametrize("content", [b"Where is a?\n", b'{"task": "x"}\n', b"x", b"\n"])
def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path, content):
    (tmp_path / "items").write_bytes(content)
    for _ in range(2):
        with pytest.raises(Refusal, match="isn't the journal of a map"):
            Journal(tmp_path / "items", {})
    assert (tmp_path / "items").read_bytes() == content


def test_a_second_map_on_one_journal_is_refused_by_name(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal(path, {}), pytest.raises(Refusal, match=f"at work on the journal {path}"):
        Journal(path, {})
    with Journal(path, {}):
        pass


def test_what_is_no_regular_file_is_no_journal(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/full")):
        with pytest.raises(Refusal, match=f"{path} can't be used: Not a regular file. Name"):
            Journal(path, {})


def test_journals_that_nobody_named_are_removed_when_they_are_old(tmp_path):
    env = {"OUTRIDER_HOME": str(tmp_path)}
    path = journal_path(env, {"agent": "a"})
    assert path == journal_path(env, {"agent": "a"}) != journal_path(env, {"agent": "b"})
    for age in (1, 40):
        with Journal(path, {}):
            os.utime(path, (0, time.time() - age * 86_400))
        journal_path(env)
        assert path.exists() == (age == 1)


async def test_a_line_that_does_not_fit_on_the_disk_leaves_no_half(tmp_path, monkeypatch):
    path = tmp_path / "j.jsonl"
    with Journal(path, {}) as journal:
        journal.add({"start": "x", "attempt": 1, "again": True})
        whole = path.read_bytes()
        import outrider.delegation.map.journal as module

        write = module.os.write

        def full(file, data):
            if len(data) < 10:
                raise OSError(28, "No space left on device")
            return write(file, data[: len(data) // 2])

        monkeypatch.setattr(module.os, "write", full)
        with pytest.raises(JournalLost, match="No space left"):
            journal.add({"start": "y", "attempt": 1, "again": True})
        monkeypatch.undo()
        assert path.read_bytes() == whole
