"""How pi is called and spawned: with its own tools only, and nothing that the repository sets.

Its prompt, its task and its session are files without a name: whoever dies, nothing is left of
them.
"""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

from outrider.processes.reaping import HAS_PROC
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.data import frozen
from outrider.runtimes.native.cold_start import start_cold
from outrider.runtimes.native.links import StartFailed
from outrider.runtimes.pi.choices import INSTALL, TRUST_VERSION, model_options, pi_version
from outrider.runtimes.runtime import ChildExit, Listener

MAX_TASK_ARGUMENT = 8_000
ALONE = "You work alone: nobody answers questions, and only your last message is read."
# Nothing of the repository's counts. APPEND_SYSTEM.md would, were nothing else appended.
OPTIONS = (
    "--mode", "json", "--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes",
    "--no-context-files", "--append-system-prompt", ALONE,
)  # fmt: skip
LAUNCH = (sys.executable, "-S", "-P", str(Path(__file__).with_name("launch.py")))
VARIABLES = {"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


@frozen
class PiCall:
    """How pi is called for a brief, but for the task."""

    command: list[str]
    environment: dict[str, str]
    files: list[int]  # descriptors that it has open
    folders: tuple[Sequence[str], ...]
    """Its walls: what is writable, seen, private and hidden, and where its layer is."""


@contextmanager
def private_file(folder: Path, name: str, text: str = "") -> Generator[tuple[int, str]]:
    """Yield the descriptor of a file, and a path that leads a child with that descriptor to it.

    Without `/proc` the file has a name for as long as it is needed.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    place = folder / name
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if HAS_PROC:
            place.unlink()
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text.encode(errors="replace"))
        yield descriptor, f"/proc/self/fd/{descriptor}" if HAS_PROC else str(place)
    finally:
        os.close(descriptor)
        place.unlink(missing_ok=True)


def pi_command(brief: Brief, program: str | None) -> list[str]:
    """Return how pi is called for a brief; raises `StartFailed`."""
    if program is None:
        raise StartFailed(f"it isn't on PATH outside the project. Install it: `{INSTALL}`")
    tools = ["--tools", ",".join(brief.tools)] if brief.tools else ["--no-tools"]
    command = [program, *OPTIONS, *model_options(brief.model), *tools]
    version, settings = pi_version(program), os.path.join(brief.cwd, ".pi/settings.json")
    if not version or version >= TRUST_VERSION:
        return [*command, "--no-approve"]
    if os.path.lexists(settings):  # it can name programs to run
        raise StartFailed(f"this version would follow {settings}. Update it: `{INSTALL}`")
    return command


async def run_pi(
    brief: Brief, call: PiCall, task: str, listener: Listener, left_ms: int
) -> ChildExit:
    """Spawn pi with a task, and return how it ended; raises `StartFailed`."""
    with ExitStack() as stack:
        message, files = [f"Task: {jsonl.without_surrogates(task)}"], call.files
        if len(task) > MAX_TASK_ARGUMENT or "\0" in task:
            spill = Path(brief.spill_folder or brief.cwd)
            file, path = stack.enter_context(private_file(spill, "task.md", task))
            message, files = [f"@{path}", "Do the task in this file."], [*files, file]
        variables = (f"{name}={value}" for name, value in call.environment.items())
        lists = ([*call.command, *message], *call.folders)
        counts = " ".join(str(len(one)) for one in lists)
        parts = (brief.cwd, brief.isolation or "", counts, *chain.from_iterable(lists), *variables)
        if any("\0" in part for part in parts):
            raise StartFailed(f"its model's name contains a null byte: {brief.model!r}")
        told = os.fsencode("\0".join(parts))
        start = b"%d\n%b" % (len(told), told)
        links = start_cold(LAUNCH, start, call.environment, left_ms, files)
        return await links.follow(listener, brief.run_id)
