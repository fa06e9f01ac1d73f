"""When a run's time is over: its hard deadline (`timeoutMs`), and its idle timeout.

It decides by what it is told, and by the time that its caller gives it; it waits for nothing.
"""

from outrider.protocol import events
from outrider.protocol.outcomes import TimeoutReason

MIN_WAIT_SECONDS = 0.01
"""While the child waits for its parent, what is left doesn't change: nobody looks all the time."""


class Deadlines:
    """The two deadlines of one run. All times are in seconds, on one clock.

    A tool at work counts as activity until its own timeout, and so does the wait before a request
    is sent again. While a main agent waits for its parent, neither deadline comes closer.
    """

    def __init__(self, timeout_seconds: float, idle_seconds: float, now: float) -> None:
        self._end = now + timeout_seconds
        self._idle_seconds = idle_seconds
        self._active_at = now
        self._busy_until: dict[str, float] = {}  # tool calls by their ids, and `retry`
        self._waiting_for_parent: set[str] = set()
        self._asked_at = 0.0

    def on_event(self, event: events.Event, now: float) -> None:
        self._active_at = now
        match event:
            case events.MessageUpdateEvent():
                pass  # the most frequent one is done with first
            case events.RetryEvent():
                self._busy_until["retry"] = now + event.delay_ms / 1000
            case events.MessageEndEvent():
                self._busy_until.pop("retry", None)
            case events.ToolStartEvent():
                self._busy_until[event.id] = now + event.timeout_ms / 1000
            case events.ToolResultEndEvent():
                self._busy_until.pop(event.id, None)
            case events.ParentRequestEvent():
                self._asked_at = self._asked_at if self._waiting_for_parent else now
                self._waiting_for_parent.add(event.id)
            case _:
                pass

    def on_answer(self, request: str, now: float) -> None:
        """Take in that the parent has answered a request: the time until then isn't the child's."""
        self._active_at = now
        self._waiting_for_parent.discard(request)
        if not self._waiting_for_parent:
            self._end += now - self._asked_at

    def check(self, now: float) -> TimeoutReason | float:
        """Return which deadline is over, else in how many seconds to look again."""
        if self._waiting_for_parent:
            left, reason = self._end - self._asked_at, TimeoutReason.RUNTIME
        else:
            busy_until = max([self._active_at, *self._busy_until.values()])
            idle_left = busy_until + self._idle_seconds - now
            left, reason = min(
                (self._end - now, TimeoutReason.RUNTIME), (idle_left, TimeoutReason.IDLE)
            )
        # Looked at again before a tool's time is over: it may end early.
        return min(max(left, MIN_WAIT_SECONDS), self._idle_seconds) if left > 0 else reason
