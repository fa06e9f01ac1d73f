"""How soon `outrider chat` takes the first key, from its start to the key's echo."""

import os
import pty
import select
import subprocess
import tempfile
import time
from collections.abc import Sequence

from benchmarks.processes import Broken

PROMPT, KEY = b">", b"Q"
MAX_SECONDS = 30.0


def first_key_seconds(python: str) -> float:
    """Return the seconds until a key that is pressed at the prompt is seen there."""
    with tempfile.TemporaryDirectory(prefix="outrider-key-") as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "TERM": "xterm", "LANG": "C.UTF-8"}
        return _seconds([python, "-m", "outrider", "chat", "--no-warm"], env, home)


def _seconds(command: Sequence[str], env: dict[str, str], folder: str) -> float:
    master, slave = pty.openpty()
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=env,
        cwd=folder,
        start_new_session=True,
    )
    os.close(slave)
    try:
        _read_until(master, PROMPT, start)
        os.write(master, KEY)
        _read_until(master, KEY, start)
        return time.monotonic() - start
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _read_until(master: int, wanted: bytes, start: float) -> None:
    seen = b""
    while wanted not in seen:
        left = start + MAX_SECONDS - time.monotonic()
        if not select.select([master], [], [], max(0.0, left))[0]:
            raise Broken(f"{wanted!r} never came: {seen[-300:]!r}")
        try:
            seen += os.read(master, 65536)
        except OSError:
            raise Broken(f"chat ended before it was ready: {seen[-300:]!r}") from None
