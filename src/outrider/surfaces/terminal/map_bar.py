"""How far a map is: a bar that moves on a terminal, a line a minute in a log."""

import asyncio
import os
import sys
import time
from contextlib import suppress

from outrider.delegation.map.mapping import Map
from outrider.surfaces.terminal import output
from outrider.surfaces.text import count, duration, fit

DRAW_SECONDS, SAY_SECONDS, BAR = 0.25, 60.0, 20


class MapBar:
    """Shows a map at work. Drawn by hand: a library would take more time than the rest of it."""

    def __init__(self, work: Map) -> None:
        self._work, self._is_plain = work, output.is_plain(sys.stderr)
        self._next: asyncio.TimerHandle | None = None

    def tick(self) -> None:
        """Show how far it is, now and from now on; in a log only from now on."""
        if not self._is_plain:
            self._draw(self.line())
        elif self._next is not None:
            output.say(self.line())
        wait = SAY_SECONDS if self._is_plain else DRAW_SECONDS
        self._next = asyncio.get_running_loop().call_later(wait, self.tick)

    def clear(self) -> None:
        """Take the bar off the terminal, until it is drawn again."""
        if not self._is_plain:
            self._draw("")

    def close(self) -> None:
        """Show nothing more."""
        self.clear()
        if self._next is not None:
            self._next.cancel()

    def line(self) -> str:
        """`[###   ] 45 of 100 · 8 running · 2 failed · 1,234 tokens · $0.1200 · 3.4/s · …`."""
        work, tally, now = self._work, self._work.tally, time.monotonic()
        total = work.total and max(work.total, tally.done)  # more lines may have been added
        rate = (tally.done - tally.recorded) / max(now - tally.begun, 0.001)
        parts = [f"{len(work.running)} running", f"{tally.failed} failed", spent_words(work)]
        parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min")
        if work.pace.until > now:
            parts.append(f"waiting {duration((work.pace.until - now) * 1000)} for the provider")
        elif total and rate:
            parts.append(f"{duration((total - tally.done) / rate * 1000)} left")
        bar = "#" * (BAR * tally.done // total) if total else ""
        head = f"[{bar:<{BAR}}] {tally.done} of {total}" if total else f"{tally.done} done"
        return " · ".join((head, *parts))

    def _draw(self, line: str) -> None:
        with suppress(OSError, ValueError):  # a terminal that is gone must not cost the map
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            sys.stderr.write(f"\r{fit(line, columns - 1)}\x1b[K")
            sys.stderr.flush()


def spent_words(work: Map) -> str:
    """`1,234 tokens · $0.1200`."""
    cost, tokens = work.purse.spent
    return count(int(tokens), "token") + (f" · ${cost:.4f}" if cost else "")
