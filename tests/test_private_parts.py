"""What is used of other people's libraries though they don't promise it, each with its own test."""

import argparse
import ast
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import outrider
from conftest import unmeasured_environment
from outrider.processes import listening
from outrider.surfaces.parser import CommandParser, argument

SOURCE = Path(outrider.__file__).parent
DOCUMENTED = {"_exit", "_fields", "_value_"}
"""Names with an underscore that the standard library documents."""
USED = {"_actions", "_optionals", "_positionals", "_private", "_socket"}
"""Of argparse, of Ray, and what socket is made of."""


def test_no_other_private_part_is_used() -> None:
    found = {name for path in SOURCE.rglob("*.py") for name in private(ast.parse(path.read_text()))}
    assert found == USED, "a new one needs a test here that fails when it changes"


def test_the_socket_without_its_module_speaks_netlink() -> None:
    """`socket` itself takes a guardian milliseconds to load."""
    with socket.socket(socket.AF_UNIX) as link, tempfile.TemporaryDirectory() as folder:
        link.bind(f"{folder}/a\n b")
        link.listen()
        assert f"{folder}/a\n b" in listening._asked_of_the_kernel()
        assert f"{folder}/a\n b" in listening._read_from_proc()


def test_what_ray_prints_of_workers_goes_through_one_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes to stdout, among the rows of a map, whatever `log_to_driver` says."""
    worker = pytest.importorskip("ray._private.worker", reason="Ray isn't installed")
    said = {"pid": "raylet", "is_err": False, "lines": ["A worker died."], "ip": "", "job": None}
    worker.print_to_stdstream(said, ignore_prefix=True)
    assert "A worker died." in capsys.readouterr().out
    monkeypatch.setattr(worker, "print_worker_logs", lambda *_: None)
    worker.print_to_stdstream({**said, "lines": ["Another one."]}, ignore_prefix=True)
    assert not capsys.readouterr().out


def private(tree: ast.Module) -> set[str]:
    """Return the private names of others in a module: none that it defines or assigns itself."""
    nodes = list(ast.walk(tree))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    own = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    own |= {getattr(node, "name", "") for node in nodes}
    own |= {node.id for node in nodes if isinstance(node, ast.Name)}
    used = {node.attr for node in attributes if is_private(node.attr)} - own - DOCUMENTED
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    imports = {node.module or "" for node in froms}
    imports |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    others = {name for name in imports if not name.startswith("outrider")}
    return used | {name for name in others if any(map(is_private, name.split(".")))}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def run(code: str) -> str:
    env = unmeasured_environment()  # coverage has loaded half of the standard library itself
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


STARTED = """
import asyncio, signal, threading
from outrider.child.exhaustion import MAX_THREAD_START_SECONDS, end_when_exhausted
set_timer, timers = signal.setitimer, []
end_when_exhausted()
signal.setitimer = lambda which, seconds: (timers.append(seconds), set_timer(which, seconds))
asyncio.run(asyncio.to_thread(int))
timer = threading.Timer(0, int)
timer.start()
timer.join()
print(len(timers) >= 4 and timers == [MAX_THREAD_START_SECONDS, 0] * (len(timers) // 2))
"""


def test_all_threads_begin_in_thread_start() -> None:
    """A child replaces it, so that no thread that gets no memory is waited for without end."""
    assert run(STARTED) == "True"


WITHOUT_OPENSSL = """
import sys
from outrider.surfaces.asyncio_loading import load_asyncio
load_asyncio()
print(sorted({"ssl", "_ssl", "_hashlib"} & set(sys.modules)))
import asyncio, hashlib
assert len(hashlib.sha256(b"x").hexdigest()) == 64

async def main():
    process = await asyncio.create_subprocess_exec("true")
    assert await process.wait() == 0

asyncio.run(main())
import ssl
assert ssl.create_default_context()
"""


def test_asyncio_and_hashlib_do_without_openssl() -> None:
    """The command and the MCP server load them without it; who wants it later still gets it."""
    assert run(WITHOUT_OPENSSL) == "[]"


def test_a_parser_knows_its_arguments_and_their_groups() -> None:
    class Module:
        EXAMPLES = "examples:\n  outrider x\n"
        ARGUMENTS = (argument("task", help="what to do"), argument("--fast", action="store_true"))

    parser = CommandParser("x", "Do it.", Module)
    assert {"--fast", "--json", "-h", "--help"} == set(parser.options)
    waited_for = parser.expected([])
    assert isinstance(waited_for, argparse.Action) and waited_for.dest == "task"
    shown = parser.format_help()
    assert "positional arguments" not in shown and "options:" not in shown


CONVERTERS = """
import sys
from importlib import import_module
from outrider.tools.documents import converter_process as converter
for kind in (kind for kind in converter._KINDS if kind != "text"):  # which needs none
    assert converter.converter(kind).convert, kind
    about = import_module("markitdown._stream_info").StreamInfo(extension=".x")
    for name in [name for name in sys.modules if name.startswith("markitdown")]:
        del sys.modules[name]
print(about.extension)
"""


def test_every_kind_of_document_has_its_converter() -> None:
    """Each is loaded by itself, from where markitdown keeps it."""
    assert run(CONVERTERS) == ".x"
