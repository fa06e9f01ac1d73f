"""The command `outrider`. Its version is told, and a host is answered, before more is imported."""

import os
import sys

from outrider import __version__

READER_GONE = 141  # as in `protocol.exit_codes`, which loads more


def main() -> int:
    """Run the command with the arguments of this process, and return its exit code."""
    code = _run(sys.argv[1:])
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

    code = run_command(arguments)
    gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
