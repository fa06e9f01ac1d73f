"""`outrider view`: the page of runs in the browser, and one run as a file."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from outrider.delegation.request import invalid
from outrider.records.runs import RecordedRun, find_run
from outrider.settings.files import load_settings
from outrider.settings.places import runs_folder
from outrider.surfaces.parser import argument, bad_call, flag, number
from outrider.surfaces.terminal import output

EXAMPLES = """\
The page is for this user on this machine: it listens on loopback only, and the
link has a token. Ctrl-C ends it; runs go on.

examples:
  outrider view                             all runs
  outrider view last                        the newest one
  outrider view --port 8765 --no-open       to look from elsewhere
  outrider view 1a2b --export run.html      one run as a file
"""
ARGUMENTS = (
    argument("run", metavar="RUN", nargs="?", help="show this one: an id, the start of one, last"),
    argument("--port", metavar="N", type=number, help="listen on this port (view.port; 0: any)"),
    flag("--no-open", "only print the link"),
    argument("--export", metavar="FILE", help="write the run to FILE, as a page of its own"),
)


def execute(arguments: Namespace) -> int:
    """Serve the page until it is ended, or write the file."""
    if arguments.export and not arguments.run:
        raise bad_call("--export needs RUN", "view")
    run = find_run(runs_folder(os.environ), arguments.run) if arguments.run else None
    if run is not None and arguments.export:
        return _export(arguments, run)
    from outrider.surfaces.page.server import Page, listening  # late: only this needs a server

    config = load_settings(Path.cwd(), os.environ).config.view
    opened = listening(config.port if arguments.port is None else arguments.port)
    page = Page(opened, os.environ, config.editor)
    link = page.link + (f"#/run/{run.id}" if run else "")
    if arguments.json:
        output.write_json({"url": link, "port": page.port})
    else:
        output.write_text(f"{link}\n")
        output.say("this page is yours alone. Ctrl-C ends it; runs go on.")
    output.flush()
    if not arguments.no_open and _has_desktop():
        import webbrowser

        webbrowser.open(link)
    page.serve()
    return 0


def _export(arguments: Namespace, run: RecordedRun) -> int:
    """Write a run's page, and say what it leaves out."""
    import asyncio

    from outrider.surfaces.page.export import exported

    page, left_out = asyncio.run(exported(run, os.environ))
    try:
        Path(arguments.export).write_text(page, encoding="utf-8")
    except OSError as error:
        raise invalid(f"{arguments.export} can't be written: {error.strerror or error}.") from None
    if arguments.json:
        output.write_json({"runId": run.id, "file": arguments.export, "leftOut": left_out})
    else:
        output.say(f"run {run.id} is in {arguments.export}.")
        for one in left_out:
            output.say(f"left out: {one}.")
    return 0


def _has_desktop() -> bool:
    """Whether there is a browser to open, and not only one that would take over the terminal."""
    return sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
