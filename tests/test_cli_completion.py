"""Tab in the real shells: what can be typed comes from the parsers themselves."""

import os
import subprocess
import sys
from contextlib import closing

import pytest

from cli_door import PATIENCE_SECONDS, Door
from conftest import needs
from outrider.surfaces.cli.main import COMMANDS
from tmux_door import Screen


@pytest.fixture
def door(tmp_path):
    with closing(Door(tmp_path)) as door:
        door.write_agent("local", "description: Knows this: place.")
        yield door


def completed(door, *words):
    lines = door.run("completion", "--words", *words).out.splitlines()
    return [line.partition("\t")[0] for line in lines]


def test_what_can_follow_is_known_to_the_last_option(door):
    assert completed(door, "") == list(COMMANDS)
    assert completed(door, "ru") == ["run", "runs"]
    assert completed(door, "run", "ex") == ["explorer"]
    assert "local" in completed(door, "agents", "")
    assert completed(door, "run", "explorer", "x", "--mo") == ["--model"]
    assert completed(door, "run", "-m", "any", "ex") == ["explorer"]
    assert completed(door, "runs", "--outcome", "f") == ["failed"]
    assert completed(door, "help", "dr", "") == []
    assert completed(door, "help", "doc") == ["doctor"]
    assert completed(door, "completion", "") == ["bash", "zsh", "fish"]
    assert completed(door, "run", "explorer", "Where?", "") == []
    assert completed(door, "nonsense", "") == []


def test_runs_are_offered_with_their_tasks(door):
    door.run("run", "explorer", "Where\nis it?", "-m", "embedded")
    assert completed(door, "show", "l") == ["last"]
    (line,) = door.run("completion", "--words", "show", "").out.splitlines()[1:]
    assert line.partition("\t")[2] == "Where"


def test_a_broken_project_offers_nothing_and_says_nothing(door):
    door.write_config("{")
    ended = door.run("completion", "--words", "run", "")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def shell_environment(door):
    """A home of its own, and the command `outrider` on the path."""
    command = door.home / "bin/outrider"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m outrider "$@"\n')
    command.chmod(0o755)
    return door.environment({"PATH": f"{command.parent}:{os.environ['PATH']}"})


def test_fish_completes(door):
    script = "outrider completion fish | source; complete -C 'outrider run lo'; "
    script += "complete -C 'outrider runs --outcome '; complete -C 'outrider run x y --fi'"
    done = subprocess.run(
        [needs("fish"), "-c", script],
        env=shell_environment(door),
        cwd=door.project,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "local\tKnows this: place."
    assert "timed_out" in lines
    assert lines[-1].startswith("--file\t")


@pytest.mark.parametrize(
    ("shell", "options"), [("bash", "--norc --noprofile -i"), ("zsh", "-f -i")]
)
def test_tab_completes(door, shell, options):
    program = [needs(shell), *options.split()]
    env = shell_environment(door)
    (door.project / "a-file.txt").touch()
    begin = "autoload -U compinit; compinit -u -D; " if shell == "zsh" else ""
    with closing(Screen(door, env=env, program=program)) as screen:
        screen.enter(f'{begin}eval "$(outrider completion {shell})"; echo re""ady')
        screen.see(r"(?m)^ready")
        screen.type("outrider run lo", "Tab")
        screen.see(r"outrider run local ")
        screen.type("x --file a-f", "Tab")
        screen.see(r"--file a-file\.txt")
