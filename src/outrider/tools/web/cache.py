"""Pages kept between runs: a fresh one is not asked for, an old one only whether it has changed.

One file for each answer, named by a hash of what was asked, readable by the user alone and written
in one step. What is damaged or can't be written costs nothing but the entry, so any number of
processes can share the folder.
"""

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

UNCOUNTED_SHARE = 1 / 32
"""How much is written before the folder is counted again: others may write as well."""
_KEPT_SHARE = 0.9
_DROPPED = {"content-encoding", "content-length", "transfer-encoding", "connection", "set-cookie"}


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """The answer to an earlier request, with when it was last known to be right."""

    headers: dict[str, str]
    body: bytes
    checked_at: float

    def is_fresh(self) -> bool:
        """Whether it may be used without asking."""
        return 0 <= time.time() - self.checked_at < _lifetime(self.headers)

    def validators(self) -> dict[str, str]:
        """Return the headers that ask whether it has changed."""
        names = (("etag", "If-None-Match"), ("last-modified", "If-Modified-Since"))
        return {sent: self.headers[name] for name, sent in names if name in self.headers}


def _lifetime(headers: Mapping[str, str]) -> float:
    """Return for how many seconds an answer is good, 0 where that must be asked."""
    rules = headers.get("cache-control", "").lower()
    if "no-cache" in rules:
        return 0.0
    age = headers.get("age", "")
    named = re.search(r"\bmax-age=\"?([0-9]{1,9})", rules)
    return float(named[1]) - (int(age[:9]) if age.isdecimal() else 0) if named else 0.0


def may_be_kept(headers: Mapping[str, str]) -> bool:
    """Return whether keeping an answer is allowed, and of any use."""
    if re.search("no-store|private", headers.get("cache-control", "").lower()):
        return False
    useful = "etag" in headers or "last-modified" in headers or _lifetime(headers) > 0
    return useful and headers.get("vary") != "*"


class WebCache:
    """A folder of answers with a bound on its size; the oldest make room."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._most = most
        self._room = 0.0

    def find(self, key: str, most: int | None = None) -> CachedResponse | None:
        """Return the kept answer; None where there is none, a damaged one, or a longer one."""
        try:
            head, _, body = self._path(key).read_bytes().partition(b"\n")
            about = orjson.loads(head)
            if about["sha256"] != hashlib.sha256(body).hexdigest():
                return None
            if most is not None and len(body) > most:
                return None
            headers = {str(name): str(value) for name, value in about["headers"].items()}
            return CachedResponse(headers, body, float(about["checkedAt"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def keep(self, key: str, headers: Mapping[str, str], body: bytes) -> None:
        """Keep an answer, if it may be kept and can be."""
        if not may_be_kept(headers):
            with suppress(OSError):
                self._path(key).unlink()
            return
        about = {
            "headers": {name: headers[name] for name in headers if name not in _DROPPED},
            "checkedAt": time.time(),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        whole = orjson.dumps(about) + b"\n" + body
        if len(whole) <= self._most:
            with suppress(OSError):  # a full disk, a folder that isn't ours
                self._make_room(len(whole))
                self._write(self._path(key), whole)

    def _path(self, key: str) -> Path:
        return self._folder / hashlib.sha256(key.encode()).hexdigest()

    def _write(self, path: Path, whole: bytes) -> None:
        handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".partial")
        try:
            with open(handle, "wb") as file:
                file.write(whole)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise

    def _make_room(self, size: int) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._room -= size
        if self._room >= 0:
            return
        found: list[tuple[float, int, str]] = []
        for entry in os.scandir(self._folder):
            with suppress(OSError):  # removed by another process meanwhile
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, entry.path))
        total = size + sum(one[1] for one in found)
        least = self._most * _KEPT_SHARE if total > self._most else total
        for _, freed, path in sorted(found):
            if total <= least:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= freed
        self._room = min(self._most - total, self._most * UNCOUNTED_SHARE)
