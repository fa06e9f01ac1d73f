"""A cold child: `python -m outrider.child STATUS_FD TIMEOUT_MS`; brief in, events out."""

import sys

from outrider.child.guardian import TERMINATE_GRACE_S, run_guarded


def _child() -> None:
    # Imported in the fork: the guardian stays small, and the child alone pays.
    from outrider.child.main import run_child

    run_child()


def main() -> None:
    """Run one child under a guardian, whose deadline is a backstop behind the parent's."""
    status, timeout_ms = int(sys.argv[1]), int(sys.argv[2])
    timeout_s = timeout_ms / 1000 + TERMINATE_GRACE_S
    run_guarded(_child, lifeline=0, status=status, timeout_s=timeout_s)


if __name__ == "__main__":
    main()
