"""The check of an answer: a command that the runtime runs, whatever the model says it has done."""

import asyncio
import os
import time

from outrider.child.emitter import Emit
from outrider.processes.cell_start import Cells
from outrider.processes.foreign_program import end_process
from outrider.processes.threads import in_thread
from outrider.protocol.data import frozen
from outrider.protocol.envelope import build_meta, build_success_response
from outrider.protocol.events import ToolResultEndEvent, ToolStartEvent
from outrider.protocol.receipt import CommandRun, Effects
from outrider.tools.bash import OutputBuffer
from outrider.tools.context import ToolContext
from outrider.workspaces.layers.audit import LayerAudit

CHECK = "check"
MAX_SHOWN = 8_000
"""How many characters of a check's output the model is shown: the last ones."""
GRACE_SECONDS = 5.0
FAILED = """\
The check `{command}` failed with {how}. It decides whether the task is done, so go on: find out \
why it fails, mend that, and answer again. It printed:

{output}"""


@frozen
class CheckRun:
    """How a check went: its exit code, None where it took too long, and what it printed."""

    exit_code: int | None
    output: str

    @property
    def how(self) -> str:
        """How it ended, in words."""
        return (
            "no exit code, as its time was up"
            if self.exit_code is None
            else (f"exit code {self.exit_code}")
        )


class Checker:
    """Runs the check of a task in the child's folder, behind the walls of its commands."""

    def __init__(
        self,
        command: str,
        attempts: int,
        context: ToolContext,
        emit: Emit,
        deadline: float,
        audit: LayerAudit | None,
    ) -> None:
        self.command, self._left, self._context = command, attempts, context
        self._emit, self._deadline, self._audit = emit, deadline, audit
        self.count, self.last = 0, CheckRun(None, "")

    @property
    def told(self) -> dict[str, object]:
        """What the result says of it."""
        code = self.last.exit_code
        return {"command": self.command, "exitCode": code, "attempts": self.count}

    async def passes(self) -> bool:
        """Run the command, and return whether it succeeded."""
        self.count += 1
        name, begun = f"{CHECK}-{self.count}", time.monotonic()
        seconds = max(0.0, self._deadline - GRACE_SECONDS - begun)
        arguments = {"command": self.command}
        self._emit(ToolStartEvent(name, CHECK, arguments, round(min(seconds, 86_400) * 1000)))
        self.last = await self._run(seconds)
        if self._audit is not None:
            await in_thread(self._audit.after_call)(name)
        data = {"exitCode": self.last.exit_code, "output": self.last.output}
        meta = build_meta(CHECK, time.monotonic() - begun)
        envelope = {**build_success_response(data), "meta": meta}
        did = Effects(commands=(CommandRun(self.command, self.last.exit_code),))
        summary = f"check: {self.last.how}"
        self._emit(ToolResultEndEvent(name, CHECK, envelope, did, summary))
        return self.last.exit_code == 0

    def advice(self) -> str | None:
        """Return what the model is told of a check that failed; None where that was the end."""
        if self._left <= 0:
            return None
        self._left -= 1
        return FAILED.format(command=self.command, how=self.last.how, output=self.last.output)

    async def _run(self, seconds: float) -> CheckRun:
        context, kept = self._context, OutputBuffer()
        start = (context.cells or Cells()).start_command
        process = await start(
            *("/bin/sh", "-c", self.command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=os.fspath(context.cwd),
            env=dict(context.environment),
            start_new_session=True,
        )
        assert process.stdout is not None, "asked for as a pipe"
        code = None
        try:
            async with asyncio.timeout(min(seconds, 86_400)):
                while chunk := await process.stdout.read(65_536):
                    kept.add(chunk)
                code = await process.wait()
        except TimeoutError:
            pass
        finally:
            await end_process(process)
        text = kept.text()[-MAX_SHOWN:]
        return CheckRun(code, context.mask.text(text) if context.mask else text)
