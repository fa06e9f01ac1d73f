"""Starts programs in cells, and hears what the kernel didn't grant them."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.processes.cell import NO_NETWORK
from outrider.processes.foreign_program import end_process
from outrider.processes.threads import in_thread

if TYPE_CHECKING:
    import asyncio

NO_CELL = ("", "0")
# Appended: nothing that is installed beside us may stand in for the standard library.
_MAIN = (
    "import sys; sys.path.append(sys.argv.pop(1));from outrider.processes.{} import main; main()"
)
_SOURCES = str(Path(__file__).parents[2])


def small_python(module: str) -> tuple[str, ...]:
    """Return how a module of this package is run, as fast as Python starts."""
    return (sys.executable, "-I", "-S", "-c", _MAIN.format(module), _SOURCES)


class Cells:
    """The cells of one child: what its programs may write to, and who is told what lacks."""

    def __init__(
        self,
        writable: tuple[str, ...] = (),
        network: str = NO_NETWORK,
        on_lack: Callable[[tuple[str, ...]], None] = lambda _: None,
    ) -> None:
        self.writable = writable
        self.network = network
        """What commands reach; helpers reach none."""
        self._on_lack = on_lack
        self._known: set[str] = set()

    def for_commands(self, *own: str) -> tuple[str, ...]:
        """Return what a process is told of the cell that it is to enter, to run commands.

        It may write to `own` folders too.
        """
        writable = (*self.writable, *own)
        return (self.network, str(len(writable)), *writable)

    def reading(self) -> "Cells":
        """Return cells in which nothing can be written."""
        return Cells((), NO_NETWORK, self.tell)

    def tell(self, lacks: Sequence[str]) -> None:
        """Take what a cell lacks, which is told once."""
        if new := tuple(lack for lack in lacks if lack not in self._known):
            self._known.update(new)
            self._on_lack(new)

    async def start(self, *command: str, **options: Any) -> "asyncio.subprocess.Process":
        """Start a helper, which needs no network; raises `OSError`, as asyncio's function does."""
        return await self._start(NO_NETWORK, command, options)

    async def start_command(self, *command: str, **options: Any) -> "asyncio.subprocess.Process":
        """Start a program with the network that commands have; raises `OSError`."""
        return await self._start(self.network, command, options)

    async def _start(
        self, network: str, command: tuple[str, ...], options: dict[str, Any]
    ) -> "asyncio.subprocess.Process":
        import asyncio  # late: `outrider.tools` is imported by programs that need none of it

        told, tell = os.pipe()
        cell = (str(tell), network, str(len(self.writable)), *self.writable)
        program = (*small_python("cell"), *cell, *command)
        try:
            started = await asyncio.create_subprocess_exec(*program, pass_fds=(tell,), **options)
        except BaseException:
            os.close(told)
            raise
        finally:
            os.close(tell)
        try:
            lines = (await in_thread(_read_all)(told)).decode().splitlines()
        except BaseException:  # given up
            await end_process(started)
            raise
        failed = [int(line[1:]) for line in lines if line.startswith("!")]
        self.tell([line for line in lines if not line.startswith("!")])
        if failed:
            await started.wait()
            raise OSError(failed[0], os.strerror(failed[0]), command[0])
        return started


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as stream:
        return stream.read()
