"""How far a map is: a bar that moves on a terminal, a line a minute in a log."""

import asyncio
import shutil
import sys
import time
from contextlib import suppress

from outrider.delegation.map.mapping import Map
from outrider.surfaces.terminal import output
from outrider.surfaces.text import count, duration, fit

DRAW_SECONDS, SAY_SECONDS, BAR = 0.25, 60.0, 20


class MapBar:
    """Shows a map at work, while it is open; drawn by hand, as a library takes 50 times as long."""

    def __init__(self, work: Map, total: int | None) -> None:
        self._work, self._total = work, total
        self._is_plain = output.is_plain(sys.stderr)
        self._next: asyncio.TimerHandle | None = None

    def tick(self) -> None:
        """Show how far it is, now and from now on."""
        wait = SAY_SECONDS if self._is_plain else DRAW_SECONDS
        if not self._is_plain:
            self._write(f"\r{fit(self.line(), shutil.get_terminal_size().columns - 1)}\x1b[K")
        elif self._next is not None:
            output.say(self.line())
        self._next = asyncio.get_running_loop().call_later(wait, self.tick)

    def clear(self) -> None:
        """Take the bar off the terminal, until it is drawn again."""
        if not self._is_plain:
            self._write("\r\x1b[K")

    def close(self) -> None:
        """Show nothing more."""
        self.clear()
        if self._next is not None:
            self._next.cancel()

    def line(self) -> str:
        """`[####    ] 45 of 100 · 8 running · 2 failed · 1,234 tokens · $0.12 · 3.4/s · …`."""
        work, tally, total = self._work, self._work.tally, self._total
        seconds = max(time.monotonic() - tally.begun, 0.001)
        rate = (tally.done - tally.recorded) / seconds
        parts = [f"{len(work.running)} running", f"{tally.failed} failed", spent_words(work)]
        parts += [f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"]
        if (pause := work.pace.until - time.monotonic()) > 0:
            parts.append(f"waiting {duration(pause * 1000)} for the provider")
        elif total and rate:
            parts.append(f"{duration((total - tally.done) / rate * 1000)} left")
        if not total:
            return " · ".join((f"{tally.done} done", *parts))
        bar = "#" * (BAR * tally.done // total)
        return " · ".join((f"[{bar:<{BAR}}] {tally.done} of {total}", *parts))

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a terminal that is gone must not cost the map
            sys.stderr.write(text)
            sys.stderr.flush()


def spent_words(work: Map) -> str:
    """`1,234 tokens · $0.12`."""
    cost, tokens = work.tally.used
    return count(int(tokens), "token") + (f" · ${cost:.4f}" if cost else "")
