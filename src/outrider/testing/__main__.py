"""`python -m outrider.testing`: a model server to try by hand. It echoes what it is told."""

import argparse
import contextlib
import sys
import threading

from outrider.testing import ScriptedModel, answer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m outrider.testing", description=__doc__)
    parser.add_argument(
        "--port", type=int, default=0, help="port to listen on; 0, the default, picks a free one"
    )
    port: int = parser.parse_args().port
    echo = ScriptedModel(lambda request: answer(request.last_user_text), port=port)
    with contextlib.suppress(KeyboardInterrupt), echo as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
