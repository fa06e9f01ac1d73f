"""Files of the user's that are changed at once or not at all, and keep whatever isn't text."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from outrider.settings.files import read_plain_file


def read_text(path: Path) -> str:
    """Return what is in a file, every character of it; nothing where there is none."""
    with suppress(FileNotFoundError):
        return read_plain_file(path, -1).decode()
    return ""


def replace_text(path: Path, text: str, like: Path | None = None) -> None:
    """Write a file, or delete it where nothing is to be in it; raises `OSError`.

    It keeps its mode, its owner and the link that leads to it, or gets those of another one.
    """
    path = Path(os.path.realpath(path))  # a link stays
    like = like or path
    if like.exists():
        os.close(os.open(like, os.O_WRONLY))  # what is read-only stays as it is
    if not text:
        return path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, new = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(text.encode())
        if like.exists():
            there = like.stat()
            os.chown(new, there.st_uid, there.st_gid)
            shutil.copystat(like, new)
            os.utime(new)  # it has changed
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
