"""Runs the converter on one document: bounded in time, memory and output, ended with the call."""

import json
import os
import site
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from outrider.protocol.envelope import ToolCode, ToolFault
from outrider.settings.keys import ConvertConfig
from outrider.tools.context import ToolContext
from outrider.workspaces.workspace import raise_if_stopped

INSTALL = "pip install 'outrider[convert]'"
MAX_TEXT_BYTES = 64 << 20
MAX_STDERR_BYTES = 1_000
_CONVERTER = str(Path(__file__).with_name("converter.py"))
_LOOK_AROUND_SECONDS = 0.05


def is_installed() -> bool:
    """Whether the package that converts is there."""
    return find_spec("markitdown") is not None


def convert_bytes(context: ToolContext, data: bytes, name: str) -> str:
    """Return a document as Markdown, its secrets masked; raises `ToolFault`. It blocks."""
    with tempfile.TemporaryFile(dir=context.spill_folder()) as file:
        file.write(data)
        file.seek(0)
        return convert_file(context, file, name)


def try_converter(config: ConvertConfig) -> str:
    """Convert a small table, and say so; raises `ToolFault` where that fails."""
    with tempfile.TemporaryDirectory(prefix="outrider-convert-") as folder:
        context = ToolContext(cwd=Path(folder), convert=config)
        text = convert_bytes(context, b"six,seven\n6,7\n", "small.csv")
    if "| 6 | 7 |" not in text:
        raise ToolFault(ToolCode.UPSTREAM_FAILED, f"of a small table it made {text[:80]!r}")
    return "it has converted a small table"


def convert_file(context: ToolContext, file: BinaryIO, name: str) -> str:
    """Return an open document as Markdown, its secrets masked; raises `ToolFault`. It blocks."""
    config = context.convert
    if config is None:
        raise ToolFault(ToolCode.NOT_AVAILABLE, "Nothing is converted: convert.enabled is off")
    if not is_installed():
        message = f"Converting documents needs a package that isn't installed: {INSTALL}"
        raise ToolFault(ToolCode.NOT_AVAILABLE, message)
    size = os.fstat(file.fileno()).st_size
    if size > config.max_bytes:
        message = f"{name} has {size:,} bytes; at most {config.max_bytes:,} are converted"
        raise ToolFault(ToolCode.TOO_LARGE, f"{message} (convert.maxBytes)")
    folder = context.spill_folder()
    with tempfile.TemporaryFile(dir=folder) as output, tempfile.TemporaryFile(dir=folder) as errors:
        process = _started(config, Path(name).suffix.lower(), file, output, errors)
        try:
            _wait(process, context, config, name)
        finally:
            process.kill()
            process.wait()
        text = _text(output, errors, process.returncode, name)
    # Masked as a whole: a secret that the end of a page cuts in two isn't recognised any more.
    return context.mask.text(text) if context.mask else text


def _started(
    config: ConvertConfig, suffix: str, document: BinaryIO, output: BinaryIO, errors: BinaryIO
) -> "subprocess.Popen[bytes]":
    told = {
        "suffix": suffix,
        "seconds": config.timeout_ms // 1000 + 1,
        "memoryBytes": config.memory_bytes,
        "maxTextBytes": MAX_TEXT_BYTES,
    }
    # It learns nothing of its surroundings but where its packages are.
    env = {"LC_ALL": "C.UTF-8", "PYTHONUSERBASE": site.getuserbase(), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-PB", _CONVERTER, json.dumps(told)],
        stdin=document,
        stdout=output,
        stderr=errors,
        cwd="/",
        env=env,
        start_new_session=True,
    )


def _wait(
    process: "subprocess.Popen[bytes]", context: ToolContext, config: ConvertConfig, name: str
) -> None:
    deadline = time.monotonic() + config.timeout_ms / 1000
    while True:
        try:
            process.wait(_LOOK_AROUND_SECONDS)
        except subprocess.TimeoutExpired:
            raise_if_stopped(context.stop)
            if time.monotonic() < deadline:
                continue
            limit = f"{config.timeout_ms / 1000:g} s (convert.timeoutMs)"
            message = f"Converting {name} took longer than {limit}"
            raise ToolFault(ToolCode.TIMEOUT, message) from None
        return


def _text(output: BinaryIO, errors: BinaryIO, exit_code: int, name: str) -> str:
    """Return what the converter wrote; raises `ToolFault` where that is no text."""
    output.seek(0)
    try:
        told: dict[str, Any] = json.loads(output.read())
    except ValueError:
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - MAX_STDERR_BYTES))
        why = f"the converter crashed ({exit_code})"
        if b"MemoryError" in errors.read():
            why = "it takes more memory than convert.memoryBytes allows"
        told = {"code": ToolCode.TOO_LARGE, "message": why}
    if told["code"] == ToolCode.SUCCESS:
        return told["text"]
    hint = f": {INSTALL}" if told["code"] == ToolCode.NOT_AVAILABLE else ""
    raise ToolFault(told["code"], f"{name} can't be converted: {told['message']}{hint}")
