"""Runs a task in the real pi, under the guardian that every child has.

Its prompt, its task and its session are files without a name: whoever dies, nothing is left of
them but the masked session in the run's folder.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outrider.masking import Masker
from outrider.processes.reaping import HAS_PROC
from outrider.processes.shielding import shielded
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.events import Event, event_to_json
from outrider.runtimes.native.links import StartFailed
from outrider.runtimes.native.runtime import mark_of, start_cold
from outrider.runtimes.pi import schema
from outrider.runtimes.pi.choices import INSTALL, TRUST_VERSION, find_pi, model_options, version_of
from outrider.runtimes.pi.events import REPEATING, Translator
from outrider.runtimes.runtime import ChildExit, Listener
from outrider.tools.lsp.servers import Surroundings

SESSION = "pi-session.jsonl"
MAX_TASK_ARGUMENT = 8_000
MAX_SESSION_BYTES = 64 << 20
ALONE = "You work alone: nobody answers questions, and only your last message is read."
# Nothing of the repository's counts. APPEND_SYSTEM.md would, were nothing else appended.
OPTIONS = (
    "--mode", "json", "--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes",
    "--no-context-files", "--append-system-prompt", ALONE,
)  # fmt: skip
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
        self.on_errors = listener.on_errors
        self._listener = listener
        self._translator = translator
        self._max_line = max_line
        self._begun = time.monotonic()
        self._held = b""

    def on_link(self, send: Callable[[bytes], None]) -> None:
        """Take the way to the child; pi takes no answers."""

    def on_events(self, data: bytes) -> None:
        """Translate the lines that `data` completes."""
        *whole, self._held = (self._held + data).split(b"\n")
        for line in whole:
            # What means nothing counts too: so many bytes, of which the listener has a limit.
            self.tell(*self._translator.events(line), otherwise=b" " * len(line))
        if len(self._held) > self._max_line:
            if self._held.startswith(REPEATING):
                self._held = self._held[: self._max_line // 2]
            else:  # too long for the listener too, which ends the run
                self._listener.on_events(self._held)

    def tell(self, *events: Event, otherwise: bytes = b"") -> None:
        """Send events."""
        at = round((time.monotonic() - self._begun) * 1000)
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
        translator = Translator(brief)
        relay = Relay(listener, translator, self._max_line)
        prompt = brief.system_prompt
        if brief.output_schema is not None:
            wanted = json.dumps(brief.output_schema, ensure_ascii=False)
            prompt = f"{prompt}\n{schema.RULE.format(schema=wanted)}"
        try:
            with (
                private_file(spill, "prompt.md", prompt) as (role, role_path),
                private_file(spill, "session") as (session, session_path),
            ):
                around = Surroundings.of(Path(brief.cwd), environment, trusted=False)
                env = {**around.for_server(), **VARIABLES}
                files = ("--system-prompt", role_path, "--session", session_path)
                command = [*_command(brief, env), *files]
                talk = _Talk(brief, spill, command, env, [role, session], relay)
                try:
                    return await talk.held(translator)
                finally:
                    place = spill.parent / SESSION
                    kept = asyncio.to_thread(_keep_session, session, place, self._masker)
                    await shielded(kept)
        except (OSError, StartFailed) as error:
            return ChildExit(started=False, reason=f"pi can't be started: {error}")


def _command(brief: Brief, env: Mapping[str, str]) -> list[str]:
    """Return how pi is called for a brief; raises `StartFailed`."""
    program = find_pi(env, brief.cwd)
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


@dataclass(frozen=True, slots=True)
class _Talk:
    """One conversation with pi, in one session."""

    brief: Brief
    spill: Path
    command: list[str]
    env: dict[str, str]
    files: list[int]
    relay: Relay
    begun: float = field(default_factory=time.monotonic)

    async def held(self, translator: Translator) -> ChildExit:
        """Return how pi ended, once all was told; asked again where its answer doesn't fit."""
        task, wanted = self.brief.task, self.brief.output_schema
        ended, finish = ChildExit(started=False), None
        for _attempt in range(2):
            ended = await self._asked(task)
            finish = translator.end(ended.code)
            if finish is None or wanted is None or not translator.has_answered:
                break
            report = schema.judge(wanted, translator.answer)
            finish = schema.reported(finish, report)
            if report.is_valid:
                break
            task = schema.AGAIN.format(faults="\n".join(map(str, report.faults)))
        if finish is not None:
            self.relay.tell(finish)
        return ended

    async def _asked(self, task: str) -> ChildExit:
        with ExitStack() as stack:
            message, files = [f"Task: {task}"], self.files
            if len(task) > MAX_TASK_ARGUMENT or "\0" in task:
                file, path = stack.enter_context(private_file(self.spill, "task.md", task))
                message, files = [f"@{path}", "Do the task in this file."], [*files, file]
            command = [*self.command, *message]
            start = {"command": command, "environment": self.env, "cwd": self.brief.cwd}
            spent_ms = round((time.monotonic() - self.begun) * 1000)
            left_ms = max(0, self.brief.timeout_ms - spent_ms)
            links = start_cold("outrider.runtimes.pi.launch", start, self.env, left_ms, files)
            return await links.follow(self.relay, mark_of(self.brief))


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
