"""What a caller asks for, and the refusals of what can't be asked: each says what to do."""

import os
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from outrider.agents.definitions import AgentDefinition
from outrider.protocol import jsonl
from outrider.protocol.data import frozen, json_kind
from outrider.protocol.errors import ErrorCode, Refusal
from outrider.protocol.tool_catalogue import is_own

MAX_TASK_BYTES = 4 << 20
MAX_NAME = 200
_IF_EMPTY = {"agent": "Name one: `outrider agents` lists them.", "task": "Say what to do."}


@frozen
class Request:
    """What a caller asks for."""

    agent: str
    task: str
    output_schema: Any = None
    model: str | None = None
    cwd: str | os.PathLike[str] | None = None
    definition: AgentDefinition | None = None
    """The agent itself, where it isn't one of those that are discovered."""
    check: str | None = None  # a command that has to pass before the task is done
    resume: str | None = None
    """The run to go on with, whose agent, model and folder count where none is given."""
    tools: Sequence[Callable[..., Any]] = ()
    """Functions that the agent gets as tools beside its own."""
    elsewhere: bool = False
    """Whether another machine performs it: then the keys there count, and not those here."""


def invalid(message: str) -> Refusal:
    """Return the refusal of a request that can't be used."""
    return Refusal(ErrorCode.INVALID_INPUT, message)


def check_input(request: Request) -> None:
    """Refuse an agent, a task or a model that can't be one."""
    texts: dict[str, Any] = {"agent": request.agent, "task": request.task}
    if request.model is not None:
        texts["model"] = request.model
    for name, value in texts.items():
        if not isinstance(value, str):
            raise invalid(f"{name} must be a string, not {json_kind(value)}.")
        if "\0" in value:
            raise invalid(f"{name} contains a NUL character. Remove it.")
        if jsonl.without_surrogates(value) != value:
            raise invalid(f"{name} isn't valid Unicode: it contains a lone surrogate. Use UTF-8.")
        if not value.strip() and name != "model":
            raise invalid(f"{name} is empty. {_IF_EMPTY[name]}")
    if len(request.agent) > MAX_NAME:
        raise invalid(f"agent is {len(request.agent)} characters long; the limit is {MAX_NAME}.")
    if (size := len(request.task.encode())) > MAX_TASK_BYTES:
        advice = "Put the bulk into a file and name the file in the task."
        raise invalid(f"The task is {size:,} bytes long; the limit is {MAX_TASK_BYTES:,}. {advice}")


def tool_sources(tools: Sequence[Any]) -> dict[str, str]:
    """Return the names of these functions as tools, and where a child imports each from."""
    from outrider.tools.registry import tool_of

    sources: dict[str, str] = {}
    for function in tools:
        if (made := tool_of(function)) is None or is_own(made.name):
            raise invalid(f"{function!r} isn't a tool: decorate it with @tool, under a new name.")
        module, name = function.__module__, function.__qualname__
        try:
            is_found = attrgetter(name)(sys.modules[module]) is function
        except (KeyError, AttributeError):  # a lambda, or a function inside of another
            is_found = False
        if not is_found or module == "__main__":
            where = "define it at the top level of a module other than the script itself"
            raise invalid(f"A child can't import the tool {name} from {module}: {where}.")
        sources[made.name] = f"{module}:{name}"
    return sources


def check_schema(schema: Any) -> None:
    """Refuse an output schema that can't be used."""
    if schema is None:
        return
    from outrider.schemas.output_schema import SchemaError, load_schema

    try:
        load_schema(schema)
    except SchemaError as error:
        raise invalid(f"output_schema can't be used: {error}") from None


def working_directory(cwd: str | os.PathLike[str] | None) -> Path:
    """Return the real path of the folder to work in, or refuse."""
    try:
        path = Path(os.getcwd() if cwd is None else os.path.realpath(cwd))
    except (OSError, ValueError) as error:
        raise invalid(f"The working directory can't be used: {error}.") from None
    if not path.is_dir():
        raise invalid(f"The working directory {path} doesn't exist or isn't a folder.")
    if not os.access(path, os.R_OK | os.X_OK):
        raise invalid(f"The working directory {path} can't be read.")
    return path
