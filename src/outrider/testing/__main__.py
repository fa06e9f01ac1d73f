"""`python -m outrider.testing`: a model server for people, which echoes what it is told."""

import argparse
import contextlib
import sys
import threading

from outrider.testing import Request, ScriptedModel, Step, answer


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m outrider.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    port: int = parser.parse_args().port
    with contextlib.suppress(KeyboardInterrupt), ScriptedModel(_echo, port=port) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        threading.Event().wait()


def _echo(request: Request) -> Step:
    return answer(request.last_user_text)


if __name__ == "__main__":
    main()
