"""A Jupyter notebook as text: its cells in order, with what they printed."""

import json
from collections.abc import Iterator
from typing import Any, cast

MAX_NOTEBOOK_BYTES = 32 * 1024 * 1024
MAX_OUTPUT_LINES = 50


def notebook_text(content: bytes) -> str | None:
    """Return the cells of a notebook as text, or None where `content` isn't a notebook."""
    try:
        notebook: Any = json.loads(content)
        cells: Any = notebook["cells"]
        text = "\n".join(
            line for number, cell in enumerate(cells, 1) for line in _cell_lines(number, cell)
        )
        # JSON can spell half a surrogate pair, which no text may hold.
        return text.encode(errors="replace").decode()
    # A notebook is foreign JSON: whatever is wrong with it, its text can still be read as it is.
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _cell_lines(number: int, cell: dict[str, Any]) -> Iterator[str]:
    yield f"--- cell {number} ({cell['cell_type']}) ---"
    yield from _joined(cell.get("source", "")).splitlines()
    for output in cell.get("outputs", ()):
        yield from _output_lines(output)


def _output_lines(output: dict[str, Any]) -> Iterator[str]:
    lines = _output_text(output).splitlines()
    yield f"--- output ({output['output_type']}) ---"
    yield from lines[:MAX_OUTPUT_LINES]
    if len(lines) > MAX_OUTPUT_LINES:
        yield f"[{len(lines) - MAX_OUTPUT_LINES} more lines of output]"


def _output_text(output: dict[str, Any]) -> str:
    if "text" in output:
        return _joined(output["text"])
    if "ename" in output:
        return f"{output['ename']}: {output.get('evalue', '')}"
    shown = cast("dict[str, Any]", output.get("data", {}))
    text = _joined(shown.get("text/plain", ""))
    others = ", ".join(sorted(kind for kind in shown if kind != "text/plain"))
    return f"{text}\n[also as {others}]" if others else text


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)
