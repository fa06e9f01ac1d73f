"""Runs a task in the real pi, under the guardian that every child has.

Its prompt, its task and its session are files without a name: whoever dies, nothing is left of
them but the masked session in the run's folder.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from outrider.masking import Masker
from outrider.processes.reaping import HAS_PROC
from outrider.processes.shielding import finish
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.events import Event, event_to_json
from outrider.runtimes.native.links import StartFailed
from outrider.runtimes.native.runtime import start_cold
from outrider.runtimes.pi import schema
from outrider.runtimes.pi.choices import INSTALL, TRUST_VERSION, model_options, version_of
from outrider.runtimes.pi.events import REPEATING, Translator
from outrider.runtimes.runtime import ChildExit, Listener
from outrider.workspaces.trusted_programs import TrustedPrograms

SESSION = "pi-session.jsonl"
MAX_TASK_ARGUMENT = 8_000
MAX_SESSION_BYTES = 64 << 20
ALONE = "You work alone: nobody answers questions, and only your last message is read."
# Nothing of the repository's counts. APPEND_SYSTEM.md would, were nothing else appended.
OPTIONS = (
    "--mode", "json", "--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes",
    "--no-context-files", "--append-system-prompt", ALONE,
)  # fmt: skip
LAUNCH = (sys.executable, "-S", "-P", str(Path(__file__).with_name("launch.py")))
VARIABLES = {"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


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


class Relay:
    """Passes pi's lines on to the run's listener as our events."""

    def __init__(self, listener: Listener, translator: Translator, max_line: int) -> None:
        self.begun = time.monotonic()
        self.on_errors = listener.on_errors
        self.translator = translator
        self._listener = listener
        self._max_line = max_line
        self._held = b""

    def on_link(self, send: Callable[[bytes], None]) -> None:
        """Take the way to the child; pi takes no answers."""

    def on_events(self, data: bytes) -> None:
        """Translate the lines that `data` completes."""
        *whole, self._held = (self._held + data).split(b"\n")
        for line in whole:
            # What means nothing counts too: so many bytes, of which the listener has a limit.
            self.tell(*self.translator.events(line), otherwise=b" " * len(line))
        if len(self._held) > self._max_line:
            if self._held.startswith(REPEATING):
                self._held = self._held[: self._max_line // 2]
            else:  # too long for the listener too, which ends the run
                self._listener.on_events(self._held)

    def tell(self, *events: Event, otherwise: bytes = b"") -> None:
        """Send events."""
        at = round((time.monotonic() - self.begun) * 1000)
        lines = [jsonl.encode(event_to_json(event, at)) for event in events] or [otherwise]
        self._listener.on_events(b"".join(line + b"\n" for line in lines))


class PiRuntime:
    """Runs tasks in pi; `masker` masks its session when the run has ended."""

    def __init__(self, masker: Masker, max_line: int) -> None:
        self._masker = masker
        self._max_line = max_line

    async def run(
        self, brief: Brief, environment: Mapping[str, str], listener: Listener
    ) -> ChildExit:
        """Run one task and return when pi and everything it started are gone."""
        spill = Path(brief.spill_folder or brief.cwd)
        relay = Relay(listener, Translator(brief), self._max_line)
        prompt = brief.system_prompt
        if brief.output_schema is not None:
            wanted = json.dumps(brief.output_schema, ensure_ascii=False)
            prompt = f"{prompt}\n{schema.RULE.format(schema=wanted)}"
        try:
            with (
                private_file(spill, "prompt.md", prompt) as (role, role_path),
                private_file(spill, "session") as (session, session_path),
            ):
                programs = TrustedPrograms.around(Path(brief.cwd), environment, trusted=False)
                env = {**programs.for_started(), **VARIABLES}
                files = ("--system-prompt", role_path, "--session", session_path)
                start = {
                    "command": [*_command(brief, programs.find("pi")), *files],
                    "environment": env,
                }
                try:
                    return await _answered(brief, start, [role, session], relay)
                finally:
                    place = spill.parent / SESSION
                    kept = asyncio.to_thread(_keep_session, session, place, self._masker)
                    await finish(kept)
        except (OSError, ValueError, StartFailed) as error:
            return ChildExit(started=False, reason=f"pi can't be started: {error}")


def _command(brief: Brief, program: str | None) -> list[str]:
    """Return how pi is called for a brief; raises `StartFailed`."""
    if program is None:
        raise StartFailed(f"it isn't on PATH outside the project. Install it: `{INSTALL}`")
    tools = ["--tools", ",".join(brief.tools)] if brief.tools else ["--no-tools"]
    command = [program, *OPTIONS, *model_options(brief.model), *tools]
    version, settings = version_of(program), os.path.join(brief.cwd, ".pi/settings.json")
    if not version or version >= TRUST_VERSION:
        return [*command, "--no-approve"]
    if os.path.lexists(settings):  # it can name programs to run
        raise StartFailed(f"this version would follow {settings}. Update it: `{INSTALL}`")
    return command


async def _answered(
    brief: Brief, start: dict[str, Any], files: list[int], relay: Relay
) -> ChildExit:
    """Return how pi ended, once all was told; asked again where its answer doesn't fit."""
    task, wanted, translator = brief.task, brief.output_schema, relay.translator
    ended, finish = ChildExit(started=False), None
    for _attempt in range(2):
        ended = await _asked(brief, start, files, relay, task)
        finish = translator.end(ended.code)
        if finish is None or wanted is None or not translator.has_answered:
            break
        report = schema.judge(wanted, translator.answer)
        finish = schema.reported(finish, report)
        if report.is_valid:
            break
        task = schema.AGAIN.format(faults="\n".join(map(str, report.faults)))
    if finish is not None:
        relay.tell(finish)
    return ended


async def _asked(
    brief: Brief, start: dict[str, Any], files: list[int], relay: Relay, task: str
) -> ChildExit:
    with ExitStack() as stack:
        message = [f"Task: {jsonl.without_surrogates(task)}"]
        if len(task) > MAX_TASK_ARGUMENT or "\0" in task:
            spill = Path(brief.spill_folder or brief.cwd)
            file, path = stack.enter_context(private_file(spill, "task.md", task))
            message, files = [f"@{path}", "Do the task in this file."], [*files, file]
        variables = (f"{name}={value}" for name, value in start["environment"].items())
        command = [*start["command"], *message]
        parts = (brief.cwd, str(len(command)), *command, *variables)
        if any("\0" in part for part in parts):
            raise StartFailed(f"a null byte is in the name of its model, {brief.model!r}")
        told = os.fsencode("\0".join(parts))
        spent_ms = round((time.monotonic() - relay.begun) * 1000)
        left_ms = max(0, brief.timeout_ms - spent_ms)
        env = start["environment"]
        links = start_cold(LAUNCH, b"%d\n%b" % (len(told), told), env, left_ms, files)
        return await links.follow(relay, brief.run_id)


def _keep_session(session: int, place: Path, masker: Masker) -> None:
    """Write the session, masked, to where it stays; not at all where that fails."""
    if not 0 < os.fstat(session).st_size <= MAX_SESSION_BYTES:
        return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with (
            open(session, "rb", closefd=False) as lines,
            open(os.open(place, flags, 0o600), "wb") as kept,
        ):
            lines.seek(0)
            for line in lines:
                kept.write(_masked(line, masker) + b"\n")
    except Exception:
        place.unlink(missing_ok=True)


def _masked(line: bytes, masker: Masker) -> bytes:
    try:
        return jsonl.encode(masker.value(jsonl.decode(line))[0])
    except (ValueError, RecursionError):  # it was cut when pi was ended
        return masker.text(line.decode(errors="replace").rstrip("\n")).encode()
