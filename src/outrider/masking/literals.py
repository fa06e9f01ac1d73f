"""String literals as they stand in code and in JSON, at any depth of escaping."""

QUOTE = r"(?:\\{0,16}[\"'`])"
"""What opens a literal: a quote, with a backslash or more where it stands inside another one."""

MAX_LITERAL = 2048


def quoted_end(view: str, position: int, opening: str) -> tuple[int, bool]:
    """Return where the literal that `opening` began ends, and whether its quote was found.

    A quote with more backslashes before it than the opening one is part of the value; one with
    fewer ends a literal further out, and so this one too.
    """
    depth, mark = len(opening) - 1, opening[-1]
    limit = min(len(view), position + MAX_LITERAL)
    line = view.find("\n", position, limit)
    limit = limit if line < 0 else line
    at = view.find(mark, position, limit)
    while at >= 0:
        before = view[max(position, at - 64) : at]
        backslashes = len(before) - len(before.rstrip("\\"))
        if backslashes <= depth:
            return at - backslashes, True
        at = view.find(mark, at + 1, limit)
    return limit, line >= 0
