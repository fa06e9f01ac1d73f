"""The model's text while it comes: masked before anybody sees it, and on the disk at once."""

from outrider.masking import Masker, StreamMasker
from outrider.records.runs import Run

MAX_HELD = 1 << 20


class PartialText:
    """The text of the turn under way, or of the last one that said anything.

    The beginning is held in memory, all of it is in the run's output file.
    """

    def __init__(self, run: Run, masker: Masker) -> None:
        self._run = run
        self._masker = masker
        self._stream: StreamMasker | None = None
        self._pieces: list[str] = []
        self._held = 0

    def begin(self) -> None:
        """A new message may come: the old text stays until the new one has begun."""
        self.settle()
        self._stream = None

    def add(self, delta: str) -> None:
        """Take in a piece of the model's text."""
        if self._stream is None:
            self._stream = self._masker.stream()
            self._pieces.clear()
            self._held = 0
            self._run.restart_output()
        self._keep(self._stream.feed(delta))

    def settle(self) -> None:
        """Give out what the masker held back: no more of this message will come."""
        if self._stream is not None:
            self._keep(self._stream.finish())
            self._stream = None

    def _keep(self, text: str) -> None:
        if not text:
            return
        self._run.add_output(text)
        if self._held < MAX_HELD:
            self._pieces.append(text)
            self._held += len(text)

    @property
    def text(self) -> str:
        """What is held of it, masked."""
        return "".join(self._pieces)
