"""The command `outrider`. Its version is told, and a host is answered, before more is imported."""

import os
import sys

from outrider import __version__

# Not typing's: see there.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

READER_GONE = 141  # as in `protocol.exit_codes`, which loads more


def command() -> "NoReturn":
    """Run the command with the arguments of this process, and end that."""
    import atexit

    ended: list[int] = []

    @atexit.register  # before anything else is, and so called after all of it
    def leave() -> None:  # pyright: ignore[reportUnusedFunction]
        for code in ended:  # Python would take apart all that was loaded, which takes a while
            os._exit(_flushed(code))

    ended.append(main())
    sys.exit(ended[0])


def main() -> int:
    """Run the command with the arguments of this process, and return its exit code."""
    return _flushed(_run(sys.argv[1:]))


def _flushed(code: int) -> int:
    """Return the exit code, once what was printed has been handed over."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError as error:  # it takes no more, and Python's own last flush would fail
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            lost = READER_GONE if isinstance(error, BrokenPipeError) else 1
            code = code or (lost if stream is sys.stdout else 0)
    return code


def _run(arguments: list[str]) -> int:
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"outrider {__version__}\n")
        return 0
    if arguments == ["mcp"]:
        from outrider.surfaces.mcp.start import main as serve

        return serve()
    import gc
    import signal

    # What is loaded stays, and then the process ends: to look for garbage in it takes 15 ms.
    gc.set_threshold(50_000)
    # Ctrl-C during the imports is no error to be traced: the process just ends.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if arguments[:1] == ["run"]:
        from outrider.surfaces.asyncio_loading import load_asyncio

        load_asyncio()
    from outrider.surfaces.cli.main import run_command

    return run_command(arguments)


if __name__ == "__main__":
    command()
