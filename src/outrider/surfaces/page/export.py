"""One run as a page of its own: a file that needs no server, and asks nothing of any other."""

import re
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from outrider.delegation.request import invalid
from outrider.delegation.run_handle import followed
from outrider.masking import Masker, secret_environment_values
from outrider.protocol import jsonl
from outrider.protocol.data import member
from outrider.protocol.errors import OutriderError
from outrider.records.runs import RecordedRun
from outrider.settings.places import home
from outrider.surfaces.page.listing import rows_of
from outrider.surfaces.page.record import bounded, changes_in, folder_of, head_of
from outrider.surfaces.text import count

WEB = Path(__file__).with_name("web")
MODULES = ("dom", "api", "dialog", "markdown", "list", "steps", "run", "app")
"""Each before those that import it."""
MAX_EVENT_BYTES = 100_000


async def exported(run: RecordedRun, env: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return a run as a page, and what it leaves out; raises `Refusal` while it is running."""
    if run.state == "running":
        raise invalid(f"Run {run.id} is still running: export it when it has ended.")
    events = [
        bounded(one, MAX_EVENT_BYTES) async for lines in followed(run.folder) for one in lines
    ]
    head, changes = head_of(run), None
    with suppress(OSError, OutriderError):
        changes = changes_in(run.id, env) if head["isWriter"] else None
    named = [member(one, "runId") for one in head["delegations"]]
    rows = rows_of(run.folder.parent, [one for one in named if isinstance(one, str)])
    left_out = tuple(_left_out(head, events, len(rows), changes))
    data = {"head": head, "events": events, "changes": changes, "rows": rows, "leftOut": left_out}
    # Once more: a diff isn't masked before, and this goes to others than whoever ran it.
    masker = Masker(folder_of(run), str(home(env)), secret_environment_values(env))
    return _page(masker.value(data)[0]), left_out


def _left_out(head: Mapping[str, Any], events: list[Any], rows: int, changes: Any) -> list[str]:
    """Return in words what of a run isn't in its page."""
    cut = sum("isCut" in one for one in events)
    more = head["answerBytes"] - len(head["answer"].encode())
    said = {
        f"{count(cut, 'event')} of more than {MAX_EVENT_BYTES:,} bytes, which are cut": cut,
        f"the last {count(more, 'byte')} of its answer": more > 0,
        f"the steps of {count(rows, 'run')} that it delegated": rows,
        "its changes, which can't be read": head["isWriter"] and changes is None,
        f"what its record lacks: {head.get('recordProblem')}": "recordProblem" in head,
    }
    return [words for words, is_so in said.items() if is_so]


def _page(data: Any) -> str:
    """Return the page with its style, its code and its data in it, and allowed nothing else."""
    style = (WEB / "style.css").read_text()
    code = "".join(_inlined((WEB / f"{name}.js").read_text()) for name in MODULES)
    # No text of a run ends the element that it is in.
    text = jsonl.encode(data).decode().replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        '<link rel="stylesheet" href="style.css">': f"<style>{style}</style>",
        '<script type="module" src="app.js"></script>': "",
        '<meta charset="utf-8">': '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "</body>": f'<script type="application/json" id="data">{text}</script>\n'
        f'<script type="module">{code}</script>\n</body>',
    }
    page = (WEB / "index.html").read_text()
    for mark, part in parts.items():
        page = page.replace(mark, part)
    return page


def _inlined(module: str) -> str:
    """Return a module as a part of one that has them all."""
    return re.sub(r"^import .*\n|^export ", "", module, flags=re.MULTILINE)


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
