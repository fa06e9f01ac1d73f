"""Text on one line: pure functions that every room can use."""


def one_line(text: str, most: int | None = None) -> str:
    """Return `text` with each run of white space as one blank, cut to `most` characters with `…`.

    What is on the line is as it was: text from elsewhere is cleaned first, as its reader needs it.
    """
    line = " ".join(text.split())
    return line if most is None or len(line) <= most else line[: most - 1].rstrip() + "…"


def printable(text: str) -> str:
    """Return `text` with a blank for each character that can't be seen, line breaks too."""
    return "".join(char if char.isprintable() else " " for char in text)
