"""The embedded model as a main agent: it hands each question to an agent, and quotes its report."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.models.embedded import vocabulary
from outrider.models.embedded.evidence import Call
from outrider.models.embedded.report import ABOUT
from outrider.protocol.catalogue import SUBAGENT

DEFAULT_AGENT = "explorer"
# By the first word of what is asked; all other questions are about where things are.
_ROUTES = {"review": "reviewer", "plan": "implementer", "design": "implementer", "test": "tester"}
_CODE = "*.{" + ",".join(sorted(vocabulary.CODE_SUFFIXES)) + "}"
_QUOTED = re.compile(r'<subagent-output agent="([^"]*)" run="([^"]*)".*?>\n(.*)\n</', re.DOTALL)
NO_CODE = (
    "There is no code in this folder, so there is nothing that I could look up. Without a model "
    "behind me I can't answer from knowledge, write, or search the web: I find and quote code."
)


def delegated(prompt: str, made: Sequence[Call], schema: Mapping[str, Any]) -> str | list[Call]:
    """Return the next call on the way to an agent's report, or the answer with that report."""
    if not made:
        return [Call("find", {"pattern": _CODE, "limit": 1})]
    if made[-1].name != SUBAGENT:
        if made[-1].text.startswith("No files match."):
            return f"{NO_CODE}\n\n{ABOUT}\n"
        return [Call(SUBAGENT, {"agent": _fitting(prompt, schema), "task": prompt})]
    quoted = _QUOTED.search(made[-1].text)
    if quoted is None:
        return f"The question could not be delegated. {made[-1].text}"
    agent, run, report = quoted.groups()
    return f"I delegated this to `{agent}` (run {run}), which reports:\n\n{report}\n"


def _fitting(prompt: str, schema: Mapping[str, Any]) -> str:
    """Return the agent for a question, of those that the tool's text names."""
    first = re.search(r"\w+", prompt.lower().replace("please", ""))
    wanted = _ROUTES.get(first.group() if first else "", DEFAULT_AGENT)
    named = re.findall(r"[\w.-]*\w", schema["properties"]["agent"]["description"])
    return wanted if wanted in named else DEFAULT_AGENT
