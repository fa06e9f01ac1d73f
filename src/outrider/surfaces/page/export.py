"""One run as a page of its own: a file that needs no server, and asks nothing of any other."""

import re
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from outrider.delegation.request import invalid
from outrider.delegation.run_handle import followed
from outrider.masking import Masker, secret_environment_values
from outrider.protocol import jsonl
from outrider.protocol.errors import OutriderError
from outrider.records.runs import RecordedRun, find_run
from outrider.settings.places import home
from outrider.surfaces.page import runs
from outrider.surfaces.page.server import WEB

MODULES = ("dom", "api", "markdown", "list", "steps", "run", "map", "app")
"""Each before those that import it."""
MAX_EVENT_BYTES = 100_000


async def exported(run: RecordedRun, env: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a run as a page, and what it leaves out; raises `Refusal` while it is running."""
    if run.state == "running":
        raise invalid(f"Run {run.id} is still running: export it when it has ended.")
    lines = [one async for some in followed(run.folder) for one in some]
    events = [runs.bounded(one, MAX_EVENT_BYTES) for one in lines]
    head, own = runs.head_of(run), f"/api/runs/{run.id}"
    answers: dict[str, Any] = {own: head}
    for one in head["delegations"]:
        with suppress(OutriderError):  # deleted since
            row = runs.row_of(find_run(run.folder.parent, str(one.get("runId"))))
            answers[f"/api/runs/{row['runId']}"] = row
    with suppress(OSError, OutriderError):
        if head["isWriter"]:
            answers[f"{own}/changes"] = runs.changes_in(run.id, env)
    said = {
        "events of more than 100,000 bytes: ": sum(bool(one.get("isCut")) for one in events),
        "the steps of runs that it delegated: ": len(head["delegations"]),
        "its changes, which can't be read": head["isWriter"] and f"{own}/changes" not in answers,
        "the end of its answer": len(head["answer"]) >= runs.MAX_ANSWER_BYTES,
    }
    left_out = [f"{one}{'' if how is True else f'{how:,}'}" for one, how in said.items() if how]
    data = {"runId": run.id, "answers": answers, "events": events, "leftOut": left_out}
    # Once more: a diff isn't masked before, and this goes to others than whoever ran it.
    masker = Masker(runs.folder_of(run), str(home(env)), secret_environment_values(env))
    return _page(masker.value(data)[0]), left_out


def _page(data: Any) -> str:
    """Return the page with its style, its code and its data in it, and allowed nothing else."""
    style = (WEB / "style.css").read_text()
    modules = "".join((WEB / f"{name}.js").read_text() for name in MODULES)
    code = re.sub(r"^import [^;]*;\n|^export ", "", modules, flags=re.MULTILINE)
    # No text of a run ends the element that it is in.
    text = jsonl.encode(data).decode().replace("<", "\\u003c")
    policy = f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; "
    policy += "img-src data:; base-uri 'none'; form-action 'none'"
    page = (WEB / "index.html").read_text()
    for mark, part in {
        '<link rel="stylesheet" href="style.css">': f"<style>{style}</style>",
        '<script type="module" src="app.js"></script>': "",
        "<title>": f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>',
        "</body>": f'<script type="application/json" id="data">{text}</script>\n'
        f'<script type="module">{code}</script>\n</body>',
    }.items():
        page = page.replace(mark, part)
    return page


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
