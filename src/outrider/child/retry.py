"""When a request to a model is sent again, and the wait before it, `Retry-After` included.

The kind of failure decides, never its text.
"""

from math import ceil

from outrider.protocol.data import frozen
from outrider.protocol.outcomes import FailureKind

BASE_DELAY_MS = 500
MAX_DELAY_MS = 30_000
LOADING_DELAY_MS = 1_000
MAX_LOADING_ATTEMPTS = 120
"""How often a server on this machine is asked that still loads its model: two minutes."""
_MAX_WAIT_SECONDS = 7 * 24 * 3600.0

_TRANSIENT = "connection rate_limit overloaded loading server timeout cut_stream"
TRANSIENT = frozenset(map(FailureKind, _TRANSIENT.split()))


@frozen
class RetryPolicy:
    """How often a request is sent at most, and how long to wait in between."""

    max_attempts: int = 2

    def delay_ms(
        self,
        failure_kind: FailureKind,
        attempt: int,
        retry_after: float | None,
        remaining_ms: int | None,
        random: float,
    ) -> int | None:
        """Return how long to wait before the next attempt, or None for no further attempt.

        `attempt` counts from 1 and is the one that failed; `retry_after` is the provider's wish in
        seconds; `random` is in [0, 1) and spreads many children over time (jitter).
        """
        if failure_kind is FailureKind.LOADING and self.max_attempts > 1:
            in_time = remaining_ms is None or remaining_ms > LOADING_DELAY_MS
            return LOADING_DELAY_MS if in_time and attempt < MAX_LOADING_ATTEMPTS else None
        if failure_kind not in TRANSIENT or attempt >= self.max_attempts:
            return None
        # The exponent is bounded so that a large attempt number can't make a huge integer.
        ceiling = min(MAX_DELAY_MS, BASE_DELAY_MS * 2 ** min(attempt - 1, 16))
        asked_ms = ceil(min(max(retry_after or 0.0, 0.0), _MAX_WAIT_SECONDS) * 1000)
        # Never shorter than the provider's wish; the jitter comes on top.
        delay = asked_ms + int(ceiling * random)
        if remaining_ms is None or delay < remaining_ms:
            return delay
        return asked_ms if 0 < asked_ms < remaining_ms else None
