"""A cold start: a child in an interpreter of its own."""

import subprocess
from collections.abc import Mapping, Sequence

from outrider.masking import without_secrets
from outrider.runtimes.native.links import Links, with_links


def start_cold(
    command: Sequence[str],
    start: bytes,
    env: Mapping[str, str],
    timeout_ms: int,
    files: Sequence[int] = (),
) -> Links:
    """Start a child in an interpreter of its own, which has `files` open; raises `StartFailed`."""

    def hand_over(theirs: tuple[int, ...]) -> "subprocess.Popen[bytes]":
        start_in, events_out, errors_out, status_out = theirs
        # Begun where we are: in the task's folder, a relative PYTHONPATH would lead into that.
        return subprocess.Popen(
            [*command, str(status_out), str(timeout_ms)],
            stdin=start_in,
            stdout=events_out,
            stderr=errors_out,
            # Who can see the process can see these; the rest comes with the brief.
            env=without_secrets(env),
            pass_fds=(status_out, *files),
            start_new_session=True,
        )

    return with_links(start, hand_over)
