"""Which runs are removed: those that are too old, then the oldest of too many bytes."""

import os
import time
from contextlib import suppress
from pathlib import Path

from outrider.records.runs import delete_run, landing_of, layer_size, run_folders
from outrider.settings.keys import RunsConfig

PRUNE_EVERY_SECONDS = 3600
KEPT_SHARE = 0.9
"""How much of `runs.keepBytes` stays when it was exceeded, so that not every run exceeds it."""
PRUNED, WRITTEN = ".pruned", ".size"
_UNIT = 1024


def pruning_is_due(runs: Path, size: int, keep: RunsConfig) -> bool:
    """Count a run of this size that has ended; whether its caller has to prune.

    It has to where all runs together are too big, and once an hour, for those that are too old.
    """
    with suppress(OSError):
        if _are_too_big(runs, size, keep) or _was_long_ago(f"{runs}/{PRUNED}"):
            os.truncate(f"{runs}/{WRITTEN}", 0)  # or those that end next would prune as well
            return True
    return False


def _are_too_big(runs: Path, size: int, keep: RunsConfig) -> bool:
    """Whether all runs are too big, as far as is known without looking at each."""
    # The file is as long as they are big, in `_UNIT`s: to append is to add, for any number of
    # processes at once, without a lock. A run that was counted twice only makes it due earlier.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(f"{runs}/{WRITTEN}", flags, 0o600)
    try:
        os.write(descriptor, b"." * -(-size // _UNIT))
        return os.fstat(descriptor).st_size * _UNIT > keep.keep_bytes
    finally:
        os.close(descriptor)


def _was_long_ago(mark: str) -> bool:
    with suppress(FileNotFoundError):
        # In both directions: a clock that was set back must not delay it forever.
        if abs(time.time() - os.stat(mark).st_mtime) < PRUNE_EVERY_SECONDS:
            return False
    Path(mark).touch(mode=0o600)
    return True


def prune(runs: Path, keep: RunsConfig, own: Path | None = None) -> int:
    """Remove runs last written too long ago, then the oldest ones; return how many were removed.

    `own` is the caller's run, which stays, as do all that are running. Changes that wait to be
    landed are removed only for their age.
    """
    # No file is opened except those of runs to remove: there may be very many.
    found: list[tuple[float, int, Path]] = []
    for folder in run_folders(runs):
        with suppress(OSError):  # just pruned by another process
            found.append((*_changed_and_size(folder), folder))
    is_full = sum(size for _, size, _ in found) > keep.keep_bytes
    room = keep.keep_bytes * (KEPT_SHARE if is_full else 1)
    total, kept, removed = 0, 0, 0
    for changed, size, folder in sorted(found, key=lambda one: (one[2] == own, one), reverse=True):
        total += size
        is_old = time.time() - changed > keep.keep_days * 86_400
        goes = is_old or (total > room and landing_of(folder).get("state") != "pending")
        if folder != own and goes and delete_run(folder):
            removed += 1
        else:
            kept += size
    with suppress(OSError):  # what has ended meanwhile is counted already
        os.truncate(runs / WRITTEN, os.stat(runs / WRITTEN).st_size + kept // _UNIT)
    return removed


def _changed_and_size(folder: Path) -> tuple[float, int]:
    with os.scandir(folder) as entries:
        states = [entry.stat(follow_symlinks=False) for entry in entries]
    times = (state.st_mtime for state in (os.stat(folder), *states))
    return max(times), sum(state.st_size for state in states) + layer_size(folder)
