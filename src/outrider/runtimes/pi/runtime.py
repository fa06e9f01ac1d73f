"""Runs a task in the real pi, under the guardian that every child has.

Only the masked session stays, in the run's folder.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from outrider.masking import Masker
from outrider.processes.shielding import finish
from outrider.protocol import jsonl
from outrider.protocol.brief import Brief
from outrider.protocol.events import Event, event_to_json
from outrider.runtimes.native.links import StartFailed
from outrider.runtimes.pi import schema
from outrider.runtimes.pi.choices import agent_folder
from outrider.runtimes.pi.events import REPEATING, Translator
from outrider.runtimes.pi.spawning import VARIABLES, PiCall, pi_command, private_file, run_pi
from outrider.runtimes.runtime import ChildExit, Listener
from outrider.workspaces.run_walls import new_layer, walls_for
from outrider.workspaces.trusted_programs import TrustedPrograms

SESSION = "pi-session.jsonl"
AS_WRITER = (
    "an agent that runs in it counts as a writer, and this one is read-only. `outrider doctor` "
    "says what would help; else give the agent a tool that writes, and set subagents.allowWrite."
)
NO_LAYER = (
    "pi writes only to an overlay, or in place if subagents.isolation is `none`, and no overlay "
    "can be put over the folder"
)
MAX_SESSION_BYTES = 64 << 20


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
                around = TrustedPrograms.around(Path(brief.cwd), environment, trusted=False)
                files = ("--system-prompt", role_path, "--session", session_path)
                command = [*pi_command(brief, around.find("pi")), *files]
                cache = _compile_cache(brief)
                places = {"TMPDIR": "/tmp", "NODE_COMPILE_CACHE": cache}  # noqa: S108
                variables = {**around.for_started(), **VARIABLES, **places}
                folders = _folders(brief, environment, cache)
                call = PiCall(command, variables, [role, session], folders)
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


def _folders(brief: Brief, env: Mapping[str, str], cache: str) -> tuple[Sequence[str], ...]:
    """Return the walls of pi, which keeps its settings, logins and sessions in a folder."""
    own, layered = os.path.realpath(agent_folder(env)), new_layer(brief, may_copy=False)
    around = walls_for(brief, env, (own, cache), layered)
    hidden = [path for path in around.hidden if not f"{path}/".startswith(f"{own}/")]
    layer = (layered.folder, layered.layer) if layered else ()
    return around.writable, around.seen, around.private, hidden, layer


async def _run_until_valid(brief: Brief, call: PiCall, relay: Relay) -> ChildExit:
    """Return how pi ended, once all was told; asked again where its answer doesn't fit."""
    task, wanted, translator = brief.task, brief.output_schema, relay.translator
    ended, finish = ChildExit(started=False), None
    for _attempt in range(2):
        spent_ms = round((time.monotonic() - relay.begun) * 1000)
        ended = await run_pi(brief, call, task, relay, max(0, brief.timeout_ms - spent_ms))
        held = translator.isolation
        if held.has_no_walls and brief.isolation == "readonly":
            reason = f"No walls hold pi here ({held.missing[0]}), so {AS_WRITER}"
            return ChildExit(started=False, reason=reason)
        if brief.layer and not held.kind:
            return ChildExit(started=False, reason=f"{NO_LAYER} ({'; '.join(held.missing)}).")
        finish = translator.end(ended.code)
        if finish is None or wanted is None or not translator.has_answered:
            break
        report = schema.judged_answer(wanted, translator.answer)
        finish = schema.reported(finish, report)
        if report.is_valid:
            break
        task = schema.AGAIN.format(faults="\n".join(map(str, report.faults)))
    if finish is not None:
        relay.tell(finish)
    return ended


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
