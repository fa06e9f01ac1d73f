"""The converter: a document on standard input, its Markdown on standard output.

It trusts the document with nothing: it runs in a cell, takes limits, and gives up what the
interpreter could do with files and processes before it reads. It is a script that imports nothing
of Outrider, and ends after one document, so that what a document did to it can't reach the next
one.
"""

import csv
import io
import json
import mimetypes
import os
import re
import resource
import sys
import zipfile
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

UNSUPPORTED, NOT_AVAILABLE = 1007, 2004  # as in `ToolCode`, which isn't imported here
MAX_UNPACKED_BYTES = 256 << 20
MAX_PARTS = 10_000
_KINDS = ("pdf", "docx", "pptx", "xlsx", "epub", "html", "csv", "ipynb", "text")
_TEXTS = {
    ".html": "html", ".htm": "html", ".xhtml": "html", ".csv": "csv", ".ipynb": "ipynb",
    ".md": "text", ".markdown": "text", ".txt": "text",
}  # fmt: skip
_OFFICE = {"word": "docx", "ppt": "pptx", "xl": "xlsx"}
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_FORBIDDEN = ("socket.", "subprocess.", "ctypes.", "os.exec", "os.fork", "os.posix_spawn",
              "os.spawn", "os.system", "os.kill", "os.remove", "os.rename", "os.link")  # fmt: skip
_LOCKED = "it is encrypted and needs a password"


class _Unconvertible(Exception):
    """Why there is no text, for the caller."""

    def __init__(self, message: str, code: int = UNSUPPORTED) -> None:
        super().__init__(message)
        self.code = code


def give_up_rights(told: dict[str, Any]) -> None:
    limits = {
        resource.RLIMIT_AS: told["memoryBytes"],
        resource.RLIMIT_CPU: told["seconds"],
        resource.RLIMIT_FSIZE: told["maxTextBytes"],
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
    }
    if sys.platform == "linux":
        limits[resource.RLIMIT_NPROC] = 0
    for number, limit in limits.items():
        with suppress(ValueError, OSError):  # a lower limit holds already
            resource.setrlimit(number, (limit, limit))


def forbid() -> None:
    """Refuse to this interpreter what a document has no use for, from now on."""
    mimetypes.init()  # it reads files of the system
    readable = tuple(os.path.realpath(folder) + os.sep for folder in sys.path if folder)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(_FORBIDDEN):
            raise PermissionError(f"a document may not use {event}")
        if event == "open" and not isinstance(args[0], int):
            real = os.path.realpath(os.fsdecode(args[0]))
            if args[2] & (os.O_WRONLY | os.O_RDWR) or not real.startswith(readable):
                raise PermissionError("a document may open no file")

    sys.addaudithook(hook)


def document_kind(data: bytes, suffix: str) -> str:
    """Return what a document is, by its content where that says so; raises `_Unconvertible`."""
    if not data.strip():
        raise _Unconvertible("it is empty")
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if data.startswith(b"PK\x03\x04"):
        return _packed_kind(data)
    if data.startswith(_OLD_OFFICE):
        locked = "EncryptedPackage".encode("utf-16-le") in data
        raise _Unconvertible(_LOCKED if locked else "it is in Office's old binary format")
    page = re.match(rb"\s*(<!doctype html|<html)", data[:200], re.I)
    if kind := _TEXTS.get(suffix, "html" if page else ""):
        return kind
    raise _Unconvertible(f"its type isn't supported: not one of {', '.join(_KINDS)}")


def _packed_kind(data: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        parts = {part.filename: part for part in package.infolist()}
        # What is read of a part never exceeds the size that is stated here.
        unpacked = sum(part.file_size for part in package.infolist())
        if unpacked > MAX_UNPACKED_BYTES or len(package.infolist()) > MAX_PARTS:
            size = f"{unpacked:,} bytes in {len(parts):,} parts"
            raise _Unconvertible(f"it unpacks to {size}; the limit is {MAX_UNPACKED_BYTES:,}")
        if any(part.flag_bits & 1 for part in parts.values()):
            raise _Unconvertible(_LOCKED)
        if "mimetype" in parts and b"epub" in package.read("mimetype")[:100]:
            return "epub"
    for kind in (_OFFICE.get(name.partition("/")[0]) for name in parts):
        if kind is not None:
            return kind
    raise _Unconvertible("it is a ZIP archive, but not an Office document or an EPUB")


def converter(kind: str) -> Any:
    """Return the converter for one kind; raises `ImportError` where it isn't installed."""
    # Importing `markitdown` itself loads the packages of all kinds, a model that guesses kinds and
    # an HTTP client, several times what one kind needs. Bare packages in its place load only that.
    spec = find_spec("markitdown")
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in ("markitdown", "markitdown.converters"):
            sys.modules[name] = package = ModuleType(name)
            package.__path__ = [folder + name.removeprefix("markitdown").replace(".", "/")]
    module = import_module(f"markitdown.converters._{kind}_converter")
    return getattr(module, f"{kind.capitalize()}Converter")()


def convert(data: bytes, suffix: str) -> str:
    """Return a document as Markdown; raises `_Unconvertible`, and whatever the libraries raise."""
    kind = document_kind(data, suffix)
    if kind in _WITHOUT_PACKAGE:
        return _WITHOUT_PACKAGE[kind](data.decode(_charset(data)))
    made, info = converter(kind), import_module("markitdown._stream_info").StreamInfo
    forbid()
    about = info(extension=f".{kind}", charset=_charset(data))
    return made.convert(io.BytesIO(data), about).markdown


def _html_text(page: str) -> str:
    parser, markdown = import_module("bs4").BeautifulSoup, import_module("markdownify").markdownify
    forbid()
    soup = parser(page, "lxml")
    for hidden in soup(["script", "style", "template", "head"]):
        hidden.decompose()
    return re.sub(r"\n{3,}", "\n\n", markdown(str(soup), heading_style="ATX"))


def _csv_text(text: str) -> str:
    forbid()
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    widest = max(map(len, rows), default=0)
    cells = ([re.sub(r"\s*\n\s*", " ", cell).replace("|", r"\|") for cell in row] for row in rows)
    lines = [f"| {' | '.join(row + [''] * (widest - len(row)))} |" for row in cells]
    return "\n".join([*lines[:1], f"|{' --- |' * widest}", *lines[1:]])


_WITHOUT_PACKAGE = {"html": _html_text, "csv": _csv_text, "text": str}


def _charset(data: bytes) -> str:
    named = re.search(rb"charset=[\"']?\s*([A-Za-z0-9_.:-]{2,40})", data[:4096], re.I)
    wide = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    for name in (wide, named[1].decode() if named else "cp1252", "cp1252"):
        with suppress(LookupError, UnicodeDecodeError):
            data.decode(name)
            return name
    return "latin-1"


def _fault(error: BaseException) -> _Unconvertible:
    """Return what a caller is told of an error."""
    names, cause = "", error
    while cause is not None and len(names) < 500:
        names += type(cause).__name__
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, _Unconvertible):
        return error
    if re.search("MemoryError|SystemError", names):  # the latter is expat's for the former
        return _Unconvertible("it needs more memory than convert.memoryBytes allows")
    if isinstance(error, RecursionError):
        return _Unconvertible("it is nested too deeply")
    if isinstance(error, ImportError) or "MissingDependency" in names:
        return _Unconvertible("a package it needs isn't installed", NOT_AVAILABLE)
    if re.search("Password|Encrypt", names):
        return _Unconvertible(_LOCKED)
    # Without the error's own words: they may quote the document, and reach the model unmarked.
    return _Unconvertible(f"it is damaged, or not what it claims to be ({type(error).__name__})")


def main(told: dict[str, Any]) -> dict[str, Any]:
    """Return the text of the document on standard input, or why there is none."""
    try:
        give_up_rights(told)
        text = convert(sys.stdin.buffer.read(), told["suffix"]).strip()
        if not text:
            raise _Unconvertible("it has no text: it may be a scan, or have only pictures")
        if len(text) * 4 > told["maxTextBytes"]:
            raise _Unconvertible(f"its text of {len(text):,} characters is too long")
    except BaseException as error:
        fault = _fault(error)
        return {"code": fault.code, "message": str(fault)}
    return {"code": 0, "text": text}


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace") as answer:
        os.dup2(2, 1)  # what a library prints must not get into the answer
        json.dump(main(json.loads(sys.argv[1])), answer, ensure_ascii=False)
    os._exit(0)
