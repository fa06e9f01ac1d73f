"""`python3 dev try`: whoever waits for it sees what happens, and learns where the command is."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

DEV = Path(__file__).parents[1] / "dev"


def test_try_shows_progress_and_says_where_the_command_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loader = SourceFileLoader("dev", str(DEV))
    spec = spec_from_loader("dev", loader)
    assert spec is not None
    dev = module_from_spec(spec)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader.exec_module(dev)
    ran: list[list[str]] = []
    monkeypatch.setattr(dev, "run", lambda *command, **_: ran.append([*map(str, command)]))
    monkeypatch.setattr(dev, "VENV", tmp_path)
    dev.try_it("Where is main?")
    [pip] = [command for command in ran if "pip" in command]
    assert not {"-q", "-qq"} & set(pip), "it is silent for a minute"
    assert ran[-1][1:] == ["run", "explorer", "Where is main?"]
    assert "The command is .venv/bin/outrider." in capsys.readouterr().err.splitlines()[-1]
