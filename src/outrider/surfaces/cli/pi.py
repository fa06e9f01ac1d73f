"""`outrider pi`: puts Outrider's extension to where pi finds it, or takes it away."""

import json
import os
import sys
from argparse import Namespace
from pathlib import Path

from outrider.delegation.request import invalid
from outrider.runtimes.pi.choices import agent_folder
from outrider.surfaces.parser import argument
from outrider.surfaces.terminal import output
from outrider.surfaces.user_files import replace_text

EXAMPLES = """\
The extension adds the subagent tool, the /toolkit command and a policy on when
to delegate. It calls this installation of Outrider.

examples:
  outrider pi install
  outrider pi uninstall
"""
ARGUMENTS = (argument("action", choices=("install", "uninstall"), metavar="install|uninstall"),)
NAME = "outrider.ts"
MARK = "/**\n * Outrider in pi:"
COMMAND = 'const OUTRIDER: string[] = ["outrider"];'
PACKAGE = Path(__file__).parents[2]
PLACES = (PACKAGE / "runtimes/pi" / NAME, PACKAGE.parents[1] / "integrations/pi" / NAME)
"""Where the extension is in an installed package, and in a checkout."""


def execute(arguments: Namespace) -> None:
    place = agent_folder(os.environ) / "extensions" / NAME
    try:
        there = place.exists()
        if there and not place.read_text(errors="replace").startswith(MARK):
            raise invalid(f"{place} isn't Outrider's extension. Move or delete it, then try again.")
        if arguments.action == "install":
            source = next(one for one in PLACES if one.exists()).read_text()
            called = json.dumps([sys.executable, "-P", "-m", "outrider"])
            ours = f"const OUTRIDER: string[] = {called};"  # how this installation is called
            replace_text(place, source.replace(COMMAND, ours, 1))
            done = "replaced" if there else "installed"
        else:
            place.unlink(missing_ok=True)
            done = "removed" if there else "not there"
    except OSError as error:
        raise invalid(f"Can't change {place}: {error.strerror}.") from None
    said = {"done": done, "path": str(place)}
    output.write_json(said) if arguments.json else output.write_clean(f"{done}: {place}\n")
