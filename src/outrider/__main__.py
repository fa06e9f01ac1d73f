"""The command `outrider`. Its version is told, and a host is answered, before more is imported."""

import sys

from outrider import __version__


def main() -> int:
    """Run the command with the arguments of this process, and return its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"outrider {__version__}\n")
        return 0
    if arguments == ["mcp"]:
        from outrider.surfaces.mcp.start import main as serve

        return serve()
    import signal

    # Ctrl-C during the imports is no error to be traced: the process just ends.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from outrider.surfaces.cli.main import run_command

    return run_command(arguments)


if __name__ == "__main__":
    sys.exit(main())
