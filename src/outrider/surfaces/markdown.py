"""Markdown of a model on a terminal. Nothing in it is hidden: no address of a link, no HTML."""

from typing import TextIO

from markdown_it import MarkdownIt
from rich.console import Console
from rich.markdown import Markdown

from outrider.surfaces.text import clean

# What looks like HTML is text: it is code more often, and would be missing from the answer.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


class Answer(Markdown):
    """A text as Markdown to draw; it can't control the terminal."""

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False, justify="default")
        self.parsed = _PARSER.parse(clean(text))


def draw(text: str, stream: TextIO) -> None:
    """Draw an answer on a terminal, wrapped to its width."""
    Console(file=stream, highlight=False, emoji=False).print(Answer(text))
