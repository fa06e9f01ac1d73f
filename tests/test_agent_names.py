"""Agents may have names in any script, and are found above a folder without git."""

import unicodedata
from pathlib import Path

import pytest

from cli_door import Door
from outrider.agents.definitions import Source, is_agent_name, parse_definition
from outrider.testing import ScriptedModel, answer


@pytest.fixture
def door(tmp_path: Path, warm_runtime: Path) -> Door:
    return Door(tmp_path, warm_runtime)


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "Réviseur",
        "审查员",
        "レビュー担当",
        "рецензент-2",
        "समीक्षक",
        "ผู้ทำ",
        "مراجع",
        "검토자",
        "a.b_c-1",
    ],
)
def test_a_name_has_letters_of_any_script(name: str) -> None:
    assert is_agent_name(name)
    for form in ("NFC", "NFD"):
        text = f"---\nname: {unicodedata.normalize(form, name)}\n---\nDo."
        definition, notes = parse_definition(text, "/x.md", Source.USER)
        assert definition is not None and not notes
        assert definition.name == unicodedata.normalize("NFC", name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b",
        "a\uff0fb",  # a wide slash
        "a\u2215b",  # a division slash
        "\uff0e\uff0e",  # wide dots
        "\u2024\u2024a",  # dot leaders
        "\uff41dmin",  # wide letters
        "\U0001d41explorer",  # mathematical letters
        "\ufb01nder",  # a ligature
        "a\u200db",  # a joiner
        "a\u202eb",  # turns the text around
        "\u3164",  # a filler
        "a\ufe0f",  # a variation selector
        "\u0301a",  # a mark on nothing
        "a b",
        "a\nb",
        "-a",
        ".a",
        "a½",
        "😀",
        "审" * 65,
    ],
)
def test_a_name_has_nothing_that_hides_or_looks_like_a_path(name: str) -> None:
    assert not is_agent_name(name)


def test_an_agent_is_run_found_by_a_typo_recorded_and_switched_off_by_its_name(door: Door) -> None:
    door.write_agent("审查员", "readonly: true", "description: Reviews.")
    with ScriptedModel([answer("Good.")]) as server:
        ended = door.run("run", "审查员", "Go", "--model", server.model, env=server.environment)
    assert (ended.code, ended.out) == (0, "Good.\n"), ended.err
    assert "审查员" in door.run("agents").out
    assert [run["agent"] for run in door.run("runs", "--json").json["runs"]] == ["审查员"]
    missed = door.run("run", "审查", "Go")
    assert missed.code == 2 and "Did you mean 审查员?" in missed.err
    door.write_config({"subagents": {"disabled": ["审查员"]}})
    assert "subagents.disabled" in door.run("run", "审查员", "Go").err


def test_a_name_is_the_same_however_its_accents_are_written(door: Door) -> None:
    door.write_agent(unicodedata.normalize("NFD", "réviseur"), "readonly: true")
    with ScriptedModel([answer("Bon.")]) as server:
        name = unicodedata.normalize("NFC", "réviseur")
        ended = door.run("run", name, "Go", "--model", server.model, env=server.environment)
    assert (ended.code, ended.out) == (0, "Bon.\n"), ended.err
    door.write_config({"subagents": {"disabled": [unicodedata.normalize("NFD", name)]}})
    assert door.run("run", name, "Go").code == 2


def test_a_new_agent_is_named_in_the_one_form_however_it_is_typed(door: Door) -> None:
    name = unicodedata.normalize("NFC", "réviseur")
    made = door.run("agents", "new", unicodedata.normalize("NFD", name), "--json").json
    assert made["name"] == name and made["path"].endswith(f"/{name}.md")
    assert door.run("agents", name, "--json").json["agent"]["name"] == name


def test_without_git_the_agents_of_a_folder_above_are_run(door: Door) -> None:
    (door.project / ".git").rmdir()
    door.write_agent("helper", "readonly: true")
    deep = door.project / "a/b"
    deep.mkdir(parents=True)
    with ScriptedModel([answer("Here.")]) as server:
        flags = ("--model", server.model, "--cwd", str(deep))
        ended = door.run("run", "helper", "Go", *flags, env=server.environment)
    assert (ended.code, ended.out) == (0, "Here.\n"), ended.err
    assert str(door.project) in door.run("runs", "--json").json["runs"][0]["project"]


EXPLORER = "expl\u043erer"  # with a Cyrillic letter


def test_a_name_that_mixes_alphabets_is_told_where_agents_are_listed_checked_and_run(
    door: Door,
) -> None:
    door.write_agent(EXPLORER, "readonly: true")
    told = "mixes Cyrillic and Latin letters ('expl\\u043erer')"
    with ScriptedModel([answer("Mine.")]) as server:
        arguments = ("run", EXPLORER, "Go", "--model", server.model, "--json")
        ended = door.run(*arguments, env=server.environment)
    assert [told in one for one in ended.json["details"]["results"][0]["warnings"]] == [True]
    for command in ("agents", "doctor"):
        assert told in door.run(command).out


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (EXPLORER, "Cyrillic and Latin"),
        ("\u0399nspector", "Greek and Latin"),
        ("r\u00e9viseur-1", ""),
        ("\u043f\u0440\u043e\u0432\u0435\u0440\u043a\u0430", ""),
        ("python\u5ba1\u67e5\u304b\u30ab", ""),  # these look like no Latin letter
    ],
)
def test_only_scripts_that_look_alike_make_a_name_doubtful(name: str, told: str) -> None:
    _, notes = parse_definition(f"---\nname: {name}\n---\nDo.", "/x.md", Source.USER)
    assert [told in note.message for note in notes] == [True] * bool(told)


def test_a_run_says_that_its_agent_s_readonly_cannot_be_read(door: Door) -> None:
    path = door.write_agent("writer", "readonly: treu", "tools: read, write", "color: blue")
    with ScriptedModel([answer("Done.")]) as model:
        call = ("run", "writer", "Write.", "-m", model.model, "--json")
        allow = {"OUTRIDER_SUBAGENTS__ALLOW_WRITE": "true"}
        ended = door.run(*call, env={**model.environment, **allow})
    [run] = ended.json["details"]["results"]
    assert run["withheld"] == [{"tool": "write", "reason": "the agent is readonly"}]
    [told] = [one for one in run["warnings"] if str(path.name) in one]
    assert "'treu' is read as true" in told
