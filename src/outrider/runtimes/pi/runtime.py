"""Runs a task in the real pi, under the guardian that every child has.

pi gets its own tools only, and nothing that the repository sets. Its prompt, its task and its
session are files without a name: whoever dies, nothing is left of them. Only the masked session
stays, in the run's folder.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from outrider.masking import Masker
from outrider.processes.reaping import HAS_PROC
from outrider.processes.shielding import finish
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.data import frozen
from outrider.protocol.events import Event, TaskFinishEvent, event_to_json
from outrider.protocol.outcomes import Outcome
from outrider.runtimes.native.cold_start import start_cold
from outrider.runtimes.native.links import StartFailed
from outrider.runtimes.pi.choices import (
    INSTALL,
    TRUST_VERSION,
    agent_folder,
    model_options,
    pi_version,
)
from outrider.runtimes.pi.events import REPEATING, Translator
from outrider.runtimes.runtime import ChildExit, Listener
from outrider.schemas.arguments import read_arguments
from outrider.schemas.output_schema import JudgedReport, load_schema
from outrider.workspaces.run_walls import new_layer, walls_for
from outrider.workspaces.trusted_programs import TrustedPrograms

SESSION = "pi-session.jsonl"
MAX_TASK_ARGUMENT = 8_000
ALONE = "You work alone: nobody answers questions, and only your last message is read."
# Nothing of the repository's counts. APPEND_SYSTEM.md would, were nothing else appended.
OPTIONS = (
    "--mode", "json", "--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes",
    "--no-context-files", "--append-system-prompt", ALONE,
)  # fmt: skip
LAUNCH = (sys.executable, "-S", "-P", str(Path(__file__).with_name("launch.py")))
VARIABLES = {"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
AS_WRITER = (
    "an agent that runs in it counts as a writer, and this one is read-only. `outrider doctor` "
    "says what would help; else give the agent a tool that writes, and set subagents.allowWrite."
)
NO_LAYER = (
    "pi writes only to an overlay, or in place if subagents.isolation is `none`, and no overlay "
    "can be put over the folder"
)
MAX_SESSION_BYTES = 64 << 20
RULE = """\
- Your last message must be one JSON value that fits this JSON Schema and nothing else: no words \
around it and no code fence. Only that is delivered.
{schema}"""
AGAIN = """\
Your answer can't be delivered:
{faults}
Answer once more, with nothing but one JSON value that fits the schema."""
_FENCED = re.compile(r"```(?:json)?\n(.*)\n```", re.DOTALL)


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
            prompt = f"{prompt}\n{RULE.format(schema=wanted)}"
        try:
            with (
                _private_file(spill, "prompt.md", prompt) as (role, role_path),
                _private_file(spill, "session") as (session, session_path),
            ):
                around = TrustedPrograms.around(Path(brief.cwd), environment, trusted=False)
                files = ("--system-prompt", role_path, "--session", session_path)
                program = around.find("pi")
                command = [*_pi_command(brief, program), *files]
                cache = _compile_cache(brief)
                places = {"TMPDIR": "/tmp", "NODE_COMPILE_CACHE": cache}  # noqa: S108
                variables = {**around.for_started(), **VARIABLES, **places}
                folders = _folders(brief, environment, cache, program or "")
                call = _PiCall(command, variables, [role, session], folders)
                try:
                    return await _run_until_valid(brief, call, relay)
                finally:
                    place = spill.parent / SESSION
                    kept = asyncio.to_thread(_keep_session, session, place, self._masker)
                    await finish(kept)
        except (OSError, ValueError, StartFailed) as error:
            return ChildExit(started=False, reason=f"pi can't be started: {error}")


def _compile_cache(brief: Brief) -> str:
    """Return where Node keeps pi compiled: in the `/tmp` of a run, each would compile it anew.

    It is ours, so that no run changes what the user's own programs execute.
    """
    folder = f"{os.path.realpath(brief.state_folder or brief.cwd)}/pi-compiled"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def _folders(
    brief: Brief, env: Mapping[str, str], cache: str, program: str
) -> tuple[Sequence[str], ...]:
    """Return the walls of pi, which keeps its settings, logins and sessions in a folder."""
    own, layered = os.path.realpath(agent_folder(env)), new_layer(brief, may_copy=False)
    around = walls_for(brief, env, (own, cache), layered)
    hidden = [path for path in around.hidden if not f"{path}/".startswith(f"{own}/")]
    layer = (layered.folder, layered.layer) if layered else ()
    # What PATH leads to may lie where only PATH's own folders stay seen, as below `/tmp`.
    real = os.path.realpath(program)
    code = real.partition("/node_modules/")[0] + "/node_modules"
    seen = (*around.seen, sys.prefix, code if os.path.isdir(code) else os.path.dirname(real))
    return around.writable, seen, around.private, hidden, layer


@frozen
class _PiCall:
    """How pi is called for a brief, but for the task."""

    command: list[str]
    environment: dict[str, str]
    files: list[int]  # descriptors that it has open
    folders: tuple[Sequence[str], ...]
    """Its walls: what is writable, seen, private and hidden, and where its layer is."""


@contextmanager
def _private_file(folder: Path, name: str, text: str = "") -> Generator[tuple[int, str]]:
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


def _pi_command(brief: Brief, program: str | None) -> list[str]:
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


async def _run_pi(
    brief: Brief, call: _PiCall, task: str, listener: Listener, left_ms: int
) -> ChildExit:
    """Spawn pi with a task, and return how it ended; raises `StartFailed`."""
    with ExitStack() as stack:
        message, files = [f"Task: {jsonl.without_surrogates(task)}"], call.files
        if len(task) > MAX_TASK_ARGUMENT or "\0" in task:
            spill = Path(brief.spill_folder or brief.cwd)
            file, path = stack.enter_context(_private_file(spill, "task.md", task))
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


async def _run_until_valid(brief: Brief, call: _PiCall, relay: Relay) -> ChildExit:
    """Return how pi ended, once all was told; asked again where its answer doesn't fit."""
    task, wanted, translator = brief.task, brief.output_schema, relay.translator
    ended, finish = ChildExit(started=False), None
    for _attempt in range(2):
        spent_ms = round((time.monotonic() - relay.begun) * 1000)
        ended = await _run_pi(brief, call, task, relay, max(0, brief.timeout_ms - spent_ms))
        held = translator.isolation
        if held.has_no_walls and brief.isolation == "readonly":
            reason = f"No walls hold pi here ({held.missing[0]}), so {AS_WRITER}"
            return ChildExit(started=False, reason=reason)
        if brief.layer and not held.kind:
            return ChildExit(started=False, reason=f"{NO_LAYER} ({'; '.join(held.missing)}).")
        finish = translator.end(ended.code)
        if finish is None or wanted is None or not translator.has_answered:
            break
        report = _judged_answer(wanted, translator.answer)
        finish = _reported(finish, report)
        if report.is_valid:
            break
        task = AGAIN.format(faults="\n".join(map(str, report.faults)))
    if finish is not None:
        relay.tell(finish)
    return ended


def _judged_answer(schema: Any, text: str) -> JudgedReport:
    """Return the report that an answer is; a code fence around all of it doesn't count."""
    fenced = _FENCED.fullmatch(text.strip())
    read = read_arguments(fenced[1] if fenced else text.strip() or "no answer")
    if read.fault is not None:
        return JudgedReport(text, (read.fault,))
    return JudgedReport(read.value, tuple(load_schema(schema).faults(read.value, read.size)))


def _reported(finish: TaskFinishEvent, report: JudgedReport) -> TaskFinishEvent:
    """Return the end of a task whose answer is this report."""
    if report.is_valid:
        finish = replace(finish, outcome=Outcome.COMPLETED, error=None)
        return replace(finish, structured_output=report.value, has_structured_output=True)
    faults = tuple(fault.to_dict() for fault in report.faults)
    error = "Neither of the 2 answers fits the output schema."
    finish = replace(finish, outcome=Outcome.SCHEMA_FAILED, error=error, schema_faults=faults)
    return replace(finish, last_report=report.value, has_last_report=True)


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
