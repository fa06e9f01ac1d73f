"""Runs a task in a child of our own: from a fork server, or cold where that starts none."""

import sys
import time
from collections.abc import Mapping
from dataclasses import replace

from outrider.protocol.brief import Brief, Start
from outrider.runtimes.native.cold_start import start_cold
from outrider.runtimes.native.links import PYTHON, StartFailed, start_line
from outrider.runtimes.runtime import ChildExit, Listener


class NativeRuntime:
    """Starts children for one caller.

    `keep_minutes` is how long a fork server waits for the next command; 0 starts every child cold.
    A `one_shot` command shares the user's fork server, a host has one of its own.
    """

    def __init__(self, env: Mapping[str, str], *, keep_minutes: int, one_shot: bool) -> None:
        self._env = env
        self._keep_minutes = keep_minutes
        self._one_shot = one_shot

    async def run(
        self, brief: Brief, environment: Mapping[str, str], listener: Listener
    ) -> ChildExit:
        """Run one task and return when the child and everything it started are gone.

        Its time counts from here, also where a fork server was waited for in vain.
        """
        begun = time.monotonic()
        forked = await self._run_forked(brief, environment, listener)
        # A child that was not started has done nothing that another one would repeat.
        if forked.started:
            return forked
        spent_ms = round((time.monotonic() - begun) * 1000)
        brief = replace(brief, timeout_ms=max(0, brief.timeout_ms - spent_ms))
        try:
            start = start_line(Start(brief, dict(environment)))
            links = start_cold((*PYTHON, "outrider.child"), start, environment, brief.timeout_ms)
            return await links.follow(listener, brief.run_id)
        except StartFailed as error:
            return ChildExit(started=False, reason=str(error))

    async def _run_forked(
        self, brief: Brief, environment: Mapping[str, str], listener: Listener
    ) -> ChildExit:
        if not self._keep_minutes or sys.platform != "linux":
            return ChildExit(started=False)

        from outrider.runtimes.native import fork_client

        try:
            server = fork_client.hosted_fork_server(brief.loads)
            if self._one_shot:
                server = fork_client.UserForkServer(self._env, self._keep_minutes)
            links = await server.start_child(brief, environment)
        except (StartFailed, OSError):
            return ChildExit(started=False)
        ended = await links.follow(listener, brief.run_id, server.pid)
        if links.is_stuck:
            server.kill()
        return ended
