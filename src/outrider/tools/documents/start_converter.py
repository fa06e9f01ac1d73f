"""Runs the converter on one document: bounded in time, memory and output, ended with the call."""

import asyncio
import json
import os
import site
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from outrider.processes.cell_start import Cells
from outrider.processes.foreign_program import end_process
from outrider.processes.threads import in_thread
from outrider.settings.keys import ConvertConfig
from outrider.tools import ToolCode, ToolContext, ToolFault

INSTALL = "pip install 'markitdown[docx,pdf,pptx,xlsx]>=0.1.8,<0.2'"
"""What the extra `convert` installs, by its name on PyPI."""
MAX_TEXT_BYTES = 64 << 20
_CONVERTER = str(Path(__file__).with_name("converter_process.py"))


def converter_state(config: ConvertConfig) -> tuple[bool, str]:
    """Return whether documents are converted under these settings, and why."""
    if not config.enabled:
        return False, "convert.enabled is off"
    lack = f"text, CSV and HTML only; {INSTALL} adds PDF and Office files"
    return True, lack if find_spec("markitdown") is None else "it is installed"


async def convert_bytes(context: ToolContext, data: bytes, name: str) -> str:
    """Return a document as Markdown, its secrets masked; raises `ToolFault`."""
    with tempfile.TemporaryFile(dir=context.spill_folder()) as file:
        await in_thread(file.write)(data)
        file.seek(0)
        return await convert_file(context, file, name)


def try_converter(config: ConvertConfig) -> str:
    """Convert a small table, and say so; raises `ToolFault` where that fails."""
    with tempfile.TemporaryDirectory(prefix="outrider-convert-") as folder:
        context = ToolContext(cwd=Path(folder), convert=config)
        text = asyncio.run(convert_bytes(context, b"six,seven\n6,7\n", "small.csv"))
    if "| 6 | 7 |" not in text:
        raise ToolFault(ToolCode.UPSTREAM_FAILED, f"it turned a small table into {text[:80]!r}")
    return "it converted a small table"


async def convert_file(context: ToolContext, file: BinaryIO, name: str) -> str:
    """Return an open document as Markdown, its secrets masked; raises `ToolFault`."""
    config = context.convert
    if config is None:
        raise ToolFault(ToolCode.NOT_AVAILABLE, "Nothing is converted: convert.enabled is off")
    size = os.fstat(file.fileno()).st_size
    if size > config.max_bytes:
        message = f"{name} is {size:,} bytes, over convert.maxBytes ({config.max_bytes:,})"
        raise ToolFault(ToolCode.TOO_LARGE, message)
    with tempfile.TemporaryFile(dir=context.spill_folder()) as output:
        cells = (context.cells or Cells()).reading()
        exit_code = await _run_converter(config, cells, file, output, name)
        output.seek(0)
        written = await in_thread(output.read)()
    try:
        told: dict[str, Any] = json.loads(written)
    except ValueError:
        why = f"the converter crashed ({exit_code}); a larger convert.memoryBytes may help"
        told = {"code": ToolCode.TOO_LARGE, "message": why}
    if told["code"] != ToolCode.SUCCESS:
        hint = f": {INSTALL}" if told["code"] == ToolCode.NOT_AVAILABLE else ""
        raise ToolFault(told["code"], f"{name} can't be converted: {told['message']}{hint}")
    # Masked as a whole: a secret that the end of a page cuts in two isn't recognised any more.
    return await in_thread(context.mask.text)(told["text"]) if context.mask else told["text"]


async def _run_converter(
    config: ConvertConfig, cells: Cells, file: BinaryIO, output: BinaryIO, name: str
) -> int:
    """Run the converter to its end, and return its exit code; raises `ToolFault`."""
    seconds = config.timeout_ms / 1000
    limits = {"memoryBytes": config.memory_bytes, "maxTextBytes": MAX_TEXT_BYTES}
    told = {"suffix": Path(name).suffix.lower(), "seconds": int(seconds) + 1, **limits}
    # It learns nothing of its surroundings but where its packages are.
    env = {"LC_ALL": "C.UTF-8", "PYTHONUSERBASE": site.getuserbase(), "OPENBLAS_NUM_THREADS": "1"}
    command = (sys.executable, "-PB", _CONVERTER, json.dumps(told))
    pipes = {"stdin": file, "stdout": output, "stderr": asyncio.subprocess.DEVNULL}
    process = await cells.start(*command, **pipes, cwd="/", env=env, start_new_session=True)
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    except TimeoutError:
        message = f"Converting {name} took longer than {seconds:g} s (convert.timeoutMs)"
        raise ToolFault(ToolCode.TIMEOUT, message) from None
    finally:
        await end_process(process)
