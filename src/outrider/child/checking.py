"""The check of an answer: a command that the runtime runs, whatever the model says it has done."""

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass

from outrider.child.emitter import Emit
from outrider.processes.cell_start import Cells
from outrider.processes.foreign_program import end_process
from outrider.processes.threads import in_thread
from outrider.protocol.envelope import build_meta, build_success_response
from outrider.protocol.events import ToolResultEndEvent, ToolStartEvent
from outrider.protocol.receipt import CommandRun, Effects
from outrider.tools.bash import OutputBuffer
from outrider.tools.context import ToolContext
from outrider.workspaces.layers.audit import LayerAudit

CHECK = "check"
MAX_SHOWN = 8_000
"""How many characters of a check's output the model is shown: the last ones."""
MAX_SECONDS = 86_400
GRACE_SECONDS = 5.0
FAILED = """\
The check `{command}` failed with {how}. It decides whether the task is done, so go on: find out \
why it fails, mend that, and answer again. It printed:

{output}"""


@dataclass(slots=True)
class Checker:
    """Runs the check of a task in the child's folder, behind the walls of its commands."""

    command: str
    attempts_left: int
    context: ToolContext
    emit: Emit
    deadline: float
    audit: LayerAudit | None
    count: int = 0
    exit_code: int | None = None
    """How it went the last time; None where it took too long."""
    output: str = ""

    @property
    def how(self) -> str:
        """How it ended the last time, in words."""
        code = self.exit_code
        return "no exit code, as its time was up" if code is None else f"exit code {code}"

    @property
    def told(self) -> dict[str, object]:
        """What the result says of it."""
        return {"command": self.command, "exitCode": self.exit_code, "attempts": self.count}

    async def passes(self) -> bool:
        """Run the command, and return whether it succeeded."""
        self.count += 1
        name, begun = f"{CHECK}-{self.count}", time.monotonic()
        seconds = min(max(0.0, self.deadline - GRACE_SECONDS - begun), MAX_SECONDS)
        self.emit(ToolStartEvent(name, CHECK, {"command": self.command}, round(seconds * 1000)))
        await self._run(seconds)
        if self.audit is not None:
            await in_thread(self.audit.after_call)(name)
        data = {"exitCode": self.exit_code, "output": self.output}
        meta = build_meta(CHECK, time.monotonic() - begun)
        did = Effects(commands=(CommandRun(self.command, self.exit_code),))
        envelope = {**build_success_response(data), "meta": meta}
        self.emit(ToolResultEndEvent(name, CHECK, envelope, did, f"check: {self.how}"))
        return self.exit_code == 0

    def advice(self) -> str | None:
        """Return what the model is told of a check that failed; None where that was the end."""
        self.attempts_left -= 1
        if self.attempts_left < 0:
            return None
        return FAILED.format(command=self.command, how=self.how, output=self.output)

    async def _run(self, seconds: float) -> None:
        context, kept = self.context, OutputBuffer()
        process = await (context.cells or Cells()).start_command(
            *("/bin/sh", "-c", self.command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=os.fspath(context.cwd),
            env=dict(context.environment),
            start_new_session=True,
        )
        assert process.stdout is not None, "asked for as a pipe"
        self.exit_code = None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while chunk := await process.stdout.read(65_536):
                        kept.add(chunk)
                    self.exit_code = await process.wait()
        finally:
            await end_process(process)
        text = kept.text()[-MAX_SHOWN:]
        self.output = context.mask.text(text) if context.mask else text
