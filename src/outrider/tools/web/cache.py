"""Pages kept between runs: their server is asked only whether they have changed.

One file for each answer, named by a hash of what was asked, readable by the user alone and written
in one step. What is damaged or can't be written costs nothing but the entry, so any number of
processes can share the folder.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import orjson

_DROPPED = {"content-encoding", "content-length", "transfer-encoding", "connection", "set-cookie"}
_VALIDATORS = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}


def validators(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that ask whether an answer has changed; none if it may not be kept."""
    forbidden = re.search("no-store|private", headers.get("cache-control", "").lower())
    if forbidden or headers.get("vary") == "*":
        return {}
    return {sent: headers[name] for name, sent in _VALIDATORS.items() if name in headers}


class WebCache:
    """A folder of answers with a bound on its size; the oldest make room."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._most = most

    def find(self, key: str) -> tuple[dict[str, str], bytes] | None:
        """Return the headers and the body that are kept; None where there are none, or damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            head, _, body = self._path(key).read_bytes().partition(b"\n")
            about = orjson.loads(head)
            if about["sha256"] == hashlib.sha256(body).hexdigest():
                return {str(name): str(value) for name, value in about["headers"].items()}, body
        return None

    def keep(self, key: str, headers: Mapping[str, str], body: bytes) -> None:
        """Keep an answer, if it may be kept and can be."""
        kept = {name: headers[name] for name in headers if name not in _DROPPED}
        about = {"headers": kept, "sha256": hashlib.sha256(body).hexdigest()}
        whole = orjson.dumps(about) + b"\n" + body
        with suppress(OSError):  # a full disk, a folder that isn't ours
            if not validators(headers):
                self._path(key).unlink()
            elif len(whole) <= self._most:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._make_room(len(whole))
                self._write(self._path(key), whole)

    def _path(self, key: str) -> Path:
        return self._folder / hashlib.sha256(key.encode()).hexdigest()

    def _write(self, path: Path, whole: bytes) -> None:
        partial = path.with_suffix(f".{os.urandom(4).hex()}.partial")
        try:
            partial.touch(0o600)
            partial.write_bytes(whole)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        found: list[tuple[float, int, str]] = []
        for entry in os.scandir(self._folder):
            with suppress(OSError):  # removed by another process meanwhile
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, entry.path))
        total = size + sum(one[1] for one in found)
        for _, freed, path in sorted(found):
            if total > self._most:
                total -= freed
                with suppress(OSError):
                    os.unlink(path)
