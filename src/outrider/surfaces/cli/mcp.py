"""`outrider mcp`: subagents for every host that speaks MCP, and its registration with some."""

from argparse import Namespace

from outrider.surfaces.mcp.start import main
from outrider.surfaces.mcp_hosts import HOSTS
from outrider.surfaces.parser import argument, bad_call, flag
from outrider.surfaces.terminal import output

EXAMPLES = """\
Without arguments, serves MCP on stdin and stdout.

examples:
  outrider mcp install claude
  outrider mcp install cursor --print
  outrider mcp uninstall codex
"""
VERBS = {"install": "add", "uninstall": "remove"}
ARGUMENTS = (
    argument("action", nargs="?", choices=VERBS, metavar="ACTION", help=" or ".join(VERBS)),
    argument("host", nargs="?", choices=HOSTS, metavar="HOST", help=", ".join(HOSTS)),
    flag("--print", "show what to do without doing it"),
)


def execute(arguments: Namespace) -> int:
    """Serve, or change a host after saying how."""
    if arguments.action is None:
        return main()
    if arguments.host is None:
        raise bad_call(f"{arguments.action} needs HOST: {', '.join(HOSTS)}", "mcp")
    host, verb = HOSTS[arguments.host], VERBS[arguments.action]
    variables: list[str] = []
    if host.passes and verb == "add":
        from outrider.delegation.project import open_project

        variables = host.variables(open_project())
    output.write_text(host.plan(verb, variables))
    output.flush()
    if not arguments.print and not host.is_pasted:
        host.change(verb, variables)
    if host.keeps and variables:
        remedy = host.remedy(arguments.host, variables[0])
        output.say(f"{host.title} keeps {variables[0]}: {remedy}")
    return 0
