"""Questions about names, callers, entry points and named files: is the right place first?

    python -m benchmarks.newcomer_names [--wrong] [--only PROJECT …]

The embedded model answers with the tools of its agent, about the source packages of five projects
that aren't this one, which are downloaded once. The aim is 36 of 40.
"""

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.find_questions import unpacked
from outrider.agents.discovery import builtin_agent
from outrider.models.embedded.model import EmbeddedModel
from outrider.models.messages import CallResult, Message, ModelAnswer, UserPrompt
from outrider.settings.keys import READ_ONLY_LSP_ACTIONS, LspConfig
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor
from outrider.tools.loading import builtin_tools
from outrider.tools.lsp.session import LspSession

QUESTIONS: dict[str, list[tuple[str, str, str, str]]] = json.loads(
    Path(__file__).with_name("newcomer_names.json").read_text("utf-8")
)
SOURCES = {
    "rich": "rich==14.2.0",
    "click": "click==8.3.0",
    "requests": "requests==2.32.5",
    "flask": "flask==3.1.2",
    "httpx": "httpx==0.28.1",
}
AIM = 36
PLACE = re.compile(r"`([^`\s]+):(\d+)`")


async def report(tree: Path, question: str, agent: str) -> str:
    """Return what the embedded model answers, as an agent with its tools in this folder."""
    model, messages = EmbeddedModel(agent), list[Message]([UserPrompt(question)])
    tools = [one for one in builtin_tools() if one.name in (builtin_agent(agent).tools or ())]
    lsp = LspSession(LspConfig(), READ_ONLY_LSP_ACTIONS)
    async with ToolExecutor(tools, ToolContext(tree, lsp=lsp)) as executor:
        while True:
            answer = ModelAnswer()
            answer.text = "".join([t async for t in model.stream(messages, tools, None, answer)])
            messages.append(answer)
            if not answer.calls:
                return answer.text
            for call in answer.calls:
                made = await executor.execute(call.name, call.arguments)
                failed = made.envelope["code"] != 0
                result = CallResult(call.id, call.name, made.text, failed, made.envelope)
                messages.append(result)


def is_right(tree: Path, text: str, question: str, kind: str, wanted: str) -> bool:
    """Return whether the first place of a report answers the question."""
    if (first := PLACE.search(text)) is None:
        return False
    path, number = first[1], int(first[2])
    line = (tree / path).read_text(errors="replace").split("\n")[number - 1]
    if kind == "calls":
        return f"{wanted}(" in line and not re.match(r"\s*(async )?def ", line)
    is_there = any(f"/{path}".endswith(f"/{one}") for one in wanted.split())
    defined = re.search(r"\b(?:class|def)\s+(\w+)", line)
    named = defined is not None and re.search(rf"\b{defined[1]}\b", question) is not None
    return is_there and (kind == "in" or named)


def wrong(tree: Path, rows: Iterable[tuple[str, str, str, str]]) -> list[str]:
    """Return the questions about a tree whose first place isn't right, with that place."""
    found: list[str] = []
    for question, agent, kind, wanted in rows:
        text = asyncio.run(report(tree, question, agent))
        if not is_right(tree, text, question, kind, wanted):
            first = PLACE.search(text)
            found.append(f"{question} → {first[0] if first else 'nothing'}")
    return found


def main() -> int:
    """Ask, print the figure, and return 0 where the aim is met."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=list(SOURCES), metavar="PROJECT")
    parser.add_argument("--wrong", action="store_true", help="print what wasn't right")
    options = parser.parse_args()
    asked = right = 0
    for name in options.only:
        missed = wrong(unpacked(SOURCES[name]), QUESTIONS[name])
        asked, right = asked + len(QUESTIONS[name]), right + len(QUESTIONS[name]) - len(missed)
        if options.wrong:
            print(*(f"{name}: {one}" for one in missed), sep="\n")
    print(f"the right place first for {right} of {asked} questions")
    return 0 if right >= AIM * asked / 40 else 1


if __name__ == "__main__":
    sys.exit(main())
