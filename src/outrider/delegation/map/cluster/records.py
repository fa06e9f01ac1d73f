"""The record of a run on its way from a node to the caller, where it then is as a local one."""

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from outrider.delegation.map.cluster.files import MAX_FOLDER_BYTES, File, read_file, write_files
from outrider.delegation.map.engine import MapRow
from outrider.protocol import jsonl
from outrider.protocol.data import as_object, from_json, to_json
from outrider.records.runs import LANDING, LAYER, OUTPUT, RESULT, SESSION, remove_folder
from outrider.settings.places import home, runs_folder
from outrider.workspaces.layers.audit import LEDGER, read_ledger
from outrider.workspaces.layers.copying import COPY, UPPER, top_of, walk

_TOLD = (SESSION, RESULT, OUTPUT, LANDING, f"{LAYER}/{LEDGER}")
"""The files that may name the node's paths."""
Spelled = tuple[str, ...]
"""The runs' folder, and the folder of the map, whole and as seen from HOME: the masked form."""


def spelled(folder: Path, env: Mapping[str, str]) -> Spelled:
    """Return the paths of this machine that a record may name."""
    own_home = home(env)
    short = f"~/{folder.relative_to(own_home)}" if folder.is_relative_to(own_home) else str(folder)
    return str(runs_folder(env)), str(folder), short


def packed_run(run: Path) -> list[File]:
    """Return the record of a run, with what its layer changed; raises `OSError`."""
    files, left = list[File](), MAX_FOLDER_BYTES
    for path in _parts(run):
        if file := read_file(run, path, left):
            files.append(file)
            left -= len(file[2])
    return files


def _parts(run: Path) -> Iterator[str]:
    layer = run / LAYER
    left_out = tuple(f"{LAYER}/{name}" for name in (UPPER, COPY, "work", "first.json"))
    for path, _ in walk(run):
        if not path.startswith(left_out):
            yield path
    if layer.is_dir():
        top = top_of(layer)
        yield f"{LAYER}/{top.name}"
        for path in sorted(read_ledger(layer).entries):
            if os.path.lexists(top / path):  # what is gone, the ledger tells
                yield f"{LAYER}/{top.name}/{path}"


def arrived(
    row: MapRow, files: Sequence[File], node: Spelled, here: Spelled
) -> tuple[MapRow, Path]:
    """Keep a run's record here, and return its row as it is here; raises `OSError`.

    A record has links only among what its child wrote: elsewhere they would be read through.
    """
    name, layers = row.run_id or "", (f"{LAYER}/{UPPER}/", f"{LAYER}/{COPY}/")
    if not re.fullmatch(r"[0-9a-f]{8}", name):
        raise OSError(errno.EINVAL, f"{name!r} is no run's id")
    if any(stat.S_ISLNK(mode) and not path.startswith(layers) for path, mode, _ in files):
        raise OSError(errno.ELOOP, "there is a link in it")
    runs, new = Path(here[0]), Path(here[0], f".arriving-{name}")
    pairs = [(_quoted(old), _quoted(own)) for old, own in zip(node, here, strict=True)]
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_folder(new)
    try:
        while (runs / name).exists():  # a run of this name is another one
            pairs.append((_quoted(name), _quoted(name := os.urandom(4).hex())))
        moved = [(path, mode, _moved(path, data, pairs)) for path, mode, data in files]
        write_files(new, _resized(moved))
        os.rename(new, runs / name)
    except BaseException:
        remove_folder(new)
        raise
    told = _moved(RESULT, jsonl.encode(to_json(row)), pairs)
    return from_json(MapRow, jsonl.decode(told)), runs / name


def _quoted(text: str) -> bytes:
    return jsonl.encode(text)[1:-1]


def _moved(path: str, data: bytes, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a file with the paths of this machine instead of the node's."""
    for old, own in pairs if path in _TOLD else ():
        data = data.replace(old, own)
    return data


def _resized(files: Sequence[File]) -> Iterator[File]:
    """Yield the files of a record, whose last event tells how long the output and result are."""
    sizes = {path: len(data) for path, _, data in files}
    for path, mode, data in files:
        if path == SESSION:
            *lines, last = data.rstrip(b"\n").split(b"\n")
            end = as_object(jsonl.decode(last))
            if end.get("type") == "end":
                end["bytes"] = {name: sizes.get(name, 0) for name in as_object(end.get("bytes"))}
                data = b"\n".join([*lines, jsonl.encode(end), b""])
        yield path, mode, data
