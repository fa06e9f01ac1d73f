"""What a tool is, and `@tool`, which makes one from a Python function."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any, Protocol, TypeVar, cast

from outrider.protocol.data import frozen
from outrider.protocol.tool_catalogue import CATALOGUE, CatalogueEntry
from outrider.tools.context import ChildSession, ToolContext
from outrider.tools.formatting import Formatter, Keep
from outrider.tools.signatures import Signature, describe, read_signature

DEFAULT_TIMEOUT_MS = 120_000
_TOOL = "__outrider_tool__"
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):([A-Za-z][A-Za-z0-9_-]*)", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class ToolSession(ChildSession, Protocol):
    """Something that lives from call to call: a shell, a connection."""

    @property
    def alive(self) -> bool:
        """Whether it can serve another call; one that can't is replaced."""
        ...


SessionFactory = Callable[[ToolContext], Awaitable[ToolSession]]


@frozen
class Tool:
    """One thing that a child can do, as models and the executor see it."""

    name: str
    resource: str
    action: str
    description: str
    parameters: dict[str, Any]  # the JSON Schema of an object, published, and held to
    run: Callable[..., Awaitable[Any]]
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    writes: bool = True  # changes files or runs commands: never given to a read-only child
    format: Formatter | None = None
    session: SessionFactory | None = None
    keep: Keep = "head"
    signature: Signature | None = None  # how arguments reach `run`; else by their JSON names

    @property
    def entry(self) -> CatalogueEntry:
        """The tool as the catalogue describes it; one of the user's own may do anything."""
        own = CatalogueEntry(self.name, self.run.__module__, self.writes, False, self.writes)
        return CATALOGUE.get(self.name, own)

    @property
    def own_timeout(self) -> bool:
        """Whether the tool keeps its deadline itself: those with a `timeoutMs` parameter do."""
        return "timeoutMs" in self.parameters.get("properties", {})


def tool(
    address: str,
    *,
    name: str | None = None,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    writes: bool | None = None,
    format: Formatter | None = None,  # noqa: A002  # the tool's own word for it
    session: SessionFactory | None = None,
    keep: Keep = "head",
) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator that makes a tool of a function or method, under `resource:action`.

    Models see it as `resource_action`, or by `name`. The function stays what it was. Without
    `writes` the catalogue says whether the tool writes; one that isn't in it is taken to.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise ValueError(f'{address!r} is not a tool\'s address: write it as "resource:action"')
    resource, action = parts.groups()
    name = name or f"{resource}_{action}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} can't be a tool's name: use up to 64 letters, digits, _ and -")
    if writes is None:
        writes = CATALOGUE[name].writes if name in CATALOGUE else True

    def decorate(function: FunctionT) -> FunctionT:
        signature = read_signature(function, with_session=session is not None)
        told, run = describe(function), _awaitable(function)
        made = Tool(name, resource, action, told, signature.parameters, run, timeout_ms, writes)
        made = replace(made, format=format, session=session, keep=keep, signature=signature)
        setattr(function, _TOOL, made)
        return function

    return decorate


def tool_of(function: Callable[..., Any]) -> Tool | None:
    """Return the tool that `@tool` made of a function, or of an object's method."""
    made = getattr(function, _TOOL, None)
    if not isinstance(made, Tool):
        return None
    return replace(made, run=_awaitable(function)) if inspect.ismethod(function) else made


def collect_tools(source: object) -> list[Tool]:
    """Return the tools of a module, an object, a class, a function, or a list of these."""
    if isinstance(source, Tool):
        return [source]
    if isinstance(source, list | tuple):
        return [found for part in cast("list[object]", source) for found in collect_tools(part)]
    if callable(source) and (own := tool_of(source)) is not None:
        return [own]
    return list(_members(source() if inspect.isclass(source) else source))


def _awaitable(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return what the executor calls: an async function as it is, a plain one in a thread."""
    if inspect.iscoroutinefunction(function):
        return function
    from outrider.processes.threads import in_thread

    return in_thread(function)


def _members(holder: object) -> Iterator[Tool]:
    is_module = isinstance(holder, ModuleType)
    home = holder.__name__.split(".")[0] if is_module else ""
    for _, member in inspect.getmembers(holder, callable):
        # What a module imported from elsewhere is not its own to offer.
        if is_module and str(getattr(member, "__module__", "")).split(".")[0] != home:
            continue
        if (made := tool_of(member)) is not None:
            yield made
        elif is_module and inspect.isclass(member):
            methods = inspect.getmembers(member, inspect.isfunction)
            if any(tool_of(method) for _, method in methods):
                yield from collect_tools(member)
