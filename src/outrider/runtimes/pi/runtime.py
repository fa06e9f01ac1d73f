"""Runs a task in the real pi, under the guardian that every child has.

Its prompt, its task and its session are files without a name: whoever dies, nothing is left of
them but the masked session in the run's folder.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from outrider.masking import Masker, without_secrets
from outrider.processes.reaping import HAS_PROC
from outrider.processes.shielding import shielded
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.events import Event, event_to_json
from outrider.protocol.outcomes import Outcome
from outrider.runtimes.native.following import Following
from outrider.runtimes.native.links import PYTHON, StartFailed, with_links
from outrider.runtimes.native.runtime import mark_of
from outrider.runtimes.pi import schema
from outrider.runtimes.pi.choices import (
    INSTALL,
    find_pi,
    is_old,
    model_options,
    refusal_of,
    surroundings,
    version_of,
)
from outrider.runtimes.pi.events import REPEATING, Translator
from outrider.runtimes.runtime import ChildExit, Listener

SESSION = "pi-session.jsonl"
MAX_TASK_ARGUMENT = 8_000
MAX_SESSION_BYTES = 64 << 20
NOT_INSTALLED = f"pi isn't installed, or not on PATH outside the project. Install it: `{INSTALL}`"
ALONE = "You work alone: nobody answers questions, and only your last message is read."
# Nothing of the repository's counts, and nothing is asked of anybody.
QUIET = (
    "--mode", "json", "--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes",
    "--no-context-files",
)  # fmt: skip
VARIABLES = {"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


@dataclass(frozen=True, slots=True)
class PiStart:
    """What a pi child is told before it becomes pi."""

    command: tuple[str, ...]
    environment: dict[str, str]
    cwd: str


@dataclass(frozen=True, slots=True)
class PrivateFile:
    """A file that only its descriptor leads to, and how a child that has that opens it."""

    descriptor: int
    path: str


@contextmanager
def private_file(folder: Path, name: str, text: str = "") -> Generator[PrivateFile]:
    """Yield a file with this text; without `/proc` it has a name as long as it is needed."""
    folder.mkdir(mode=0o700, exist_ok=True)
    place = folder / name
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if HAS_PROC:
            place.unlink()
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text.encode(errors="replace"))
        yield PrivateFile(descriptor, f"/proc/self/fd/{descriptor}" if HAS_PROC else str(place))
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
            self.tell(*self._translator.events(line), of=len(line))
        if len(self._held) > self._max_line:
            if self._held.startswith(REPEATING):
                self._held = self._held[: self._max_line // 2]
            else:  # one line too long for the listener too, which ends the run
                self._listener.on_events(self._held)

    def tell(self, *events: Event, of: int = 0) -> None:
        """Send events; for a line that stands for none, as many bytes that mean nothing."""
        at = round((time.monotonic() - self._begun) * 1000)
        lines = [jsonl.encode(event_to_json(event, at)) for event in events] or [b" " * of]
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
        program = find_pi(environment, brief.cwd)
        reason = refusal_of(program, brief.cwd) if program else NOT_INSTALLED
        if program is None or reason:
            return ChildExit(started=False, reason=reason or "")
        spill = Path(brief.spill_folder or brief.cwd)
        try:
            with private_file(spill, "session") as session:
                run = _Run(brief, environment, program, session, spill)
                relay = Relay(listener, run.translator, self._max_line)
                try:
                    return await run.to_the_end(relay)
                finally:
                    keep = partial(_keep_session, session, spill.parent / SESSION, self._masker)
                    await shielded(asyncio.to_thread(keep))
        except (OSError, StartFailed) as error:
            return ChildExit(started=False, reason=f"pi can't be started: {error}")


class _Run:
    """One task in pi: an answer, and a second one where the first doesn't fit the schema."""

    def __init__(
        self,
        brief: Brief,
        environment: Mapping[str, str],
        program: str,
        session: PrivateFile,
        spill: Path,
    ) -> None:
        self.translator = Translator(brief)
        self._brief = brief
        self._environment = {**surroundings(environment, brief.cwd), **VARIABLES}
        self._program = program
        self._session = session
        self._spill = spill
        self._until = time.monotonic() + brief.timeout_ms / 1000

    async def to_the_end(self, relay: Relay) -> ChildExit:
        """Return how pi ended, after all that it said was told, its end last."""
        wanted = self._brief.output_schema
        ended = await self._asked(self._brief.task, relay)
        finish = self.translator.end() if ended.code == 0 else None
        if finish is not None and wanted is not None and self._answers(finish.outcome):
            report = schema.judge(wanted, self.translator.answer)
            if not report.is_valid:
                ended = await self._asked(schema.again(report), relay)
                finish = self.translator.end() if ended.code == 0 else None
                report = schema.judge(wanted, self.translator.answer)
            if finish is not None and self._answers(finish.outcome):
                finish = schema.reported(finish, report)
        finish = finish or (self.translator.failure() if ended.code is not None else None)
        if finish is not None:
            relay.tell(finish)
        return ended

    def _answers(self, outcome: Outcome) -> bool:
        """Whether there is an answer to judge; an empty one is, and one that was cut isn't."""
        return outcome is Outcome.COMPLETED or not self.translator.answer.strip()

    async def _asked(self, task: str, relay: Relay) -> ChildExit:
        """Run pi once, with all files that it needs, and return how it ended."""
        brief = self._brief
        prompt = "\n".join(filter(None, (brief.system_prompt, schema.rule(brief.output_schema))))
        with ExitStack() as files:
            role = files.enter_context(private_file(self._spill, "prompt.md", prompt))
            opened = [self._session, role]
            message = [f"Task: {task}"]
            if len(task) > MAX_TASK_ARGUMENT or "\0" in task:
                opened.append(files.enter_context(private_file(self._spill, "task.md", task)))
                message = [f"@{opened[-1].path}", "Do the task in this file."]
            tools = ("--tools", ",".join(brief.tools)) if brief.tools else ("--no-tools",)
            approval = () if is_old(version_of(self._program)) else ("--no-approve",)
            command = (
                *(self._program, *QUIET, *approval, *model_options(brief.model), *tools),
                *("--session", self._session.path, "--system-prompt", role.path),
                *("--append-system-prompt", ALONE, *message),
            )
            start = PiStart(command, self._environment, brief.cwd)
            hand_over = partial(self._hand_over, [file.descriptor for file in opened])
            links = with_links(start, hand_over)
            return await Following(links, relay, mark_of(brief)).run()

    def _hand_over(self, files: list[int], theirs: tuple[int, ...]) -> "subprocess.Popen[bytes]":
        start_in, events_out, errors_out, status_out = theirs
        left_ms = max(0, round((self._until - time.monotonic()) * 1000))
        depth = self._environment.get("OUTRIDER_SUBAGENT_DEPTH", "1")
        return subprocess.Popen(
            [*PYTHON, "outrider.runtimes.pi.launch", str(status_out), str(left_ms), depth],
            stdin=start_in,
            stdout=events_out,
            stderr=errors_out,
            env=without_secrets(self._environment),
            pass_fds=(status_out, *files),
            start_new_session=True,
        )


def _keep_session(session: PrivateFile, place: Path, masker: Masker) -> None:
    """Write the session, masked, to where it stays; not at all where that fails."""
    if not 0 < os.fstat(session.descriptor).st_size <= MAX_SESSION_BYTES:
        return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with (
            open(session.descriptor, "rb", closefd=False) as lines,
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
