"""Starts a child cold, in an interpreter of its own."""

import subprocess
import sys
from collections.abc import Mapping

from outrider.masking import without_secrets
from outrider.protocol.brief import Brief, Start
from outrider.runtimes.native.links import Links, with_links

# -P: the working directory is hostile ground, and must not be searched for modules.
PYTHON = (sys.executable, "-P", "-m")


def start_cold(brief: Brief, env: Mapping[str, str]) -> Links:
    """Start a child in an interpreter of its own; raises `StartFailed`."""

    def hand_over(theirs: tuple[int, ...]) -> "subprocess.Popen[bytes]":
        start_in, events_out, errors_out, status_out = theirs
        # Begun where we are: in the task's folder, a relative PYTHONPATH would lead into that.
        return subprocess.Popen(
            [*PYTHON, "outrider.child", str(status_out), str(brief.timeout_ms)],
            stdin=start_in,
            stdout=events_out,
            stderr=errors_out,
            # Who can see the process can see these; the rest comes with the brief.
            env=without_secrets(env),
            pass_fds=(status_out,),
            start_new_session=True,
        )

    return with_links(Start(brief, dict(env)), hand_over)
