"""The pieces of a streamed answer, put together; servers differ in everything but the outline."""

from dataclasses import dataclass, field
from os import urandom
from typing import Any, cast

from outrider.models.failures import RequestFailed, failure_of
from outrider.models.lean.errors import event_error
from outrider.models.lean.request import IN_CONTENT
from outrider.models.messages import ModelAnswer, ModelCall
from outrider.protocol import jsonl
from outrider.protocol.data import as_object, member
from outrider.protocol.outcomes import FailureKind

_THOUGHT_FIELDS = ("reasoning", "reasoning_content")
_BEGIN, _END = "<think>", "</think>"
_TEXT, _CALL = "a text", "a call"
_PARAGRAPH = "\n\n"


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[Any] = field(default_factory=list[Any])
    extra: Any = None


class Chunks:
    """Fills an answer from chunks, and gives back the text in each."""

    def __init__(self, answer: ModelAnswer, model: str = "") -> None:
        self._answer = answer
        self._model = model
        self._thoughts: dict[str, list[str]] = {}
        self._calls: list[_Call] = []
        self._places: dict[Any, _Call] = {}
        self._held = ""
        self._is_thought = False
        self._is_empty = True
        self._has_text = False
        self._last = ""  # what came last, as what follows something else is a new paragraph

    def take(self, data: bytes, *, is_error: bool = False) -> str:
        """Take in one chunk, or a whole answer, and return its text; raises `RequestFailed`."""
        self._is_empty = False
        try:
            chunk = _loaded(data)
        except (ValueError, RecursionError) as error:
            if not is_error:
                raise _malformed(str(error)) from None
            chunk = data.decode(errors="replace")
        is_error = is_error or member(chunk, "object") == "error"
        self._check(member(chunk, "error") or (is_error and (chunk or True)))
        if not isinstance(chunk, dict):
            raise _malformed(f"{data[:40]!r} where an object belongs")
        return self._take_object(as_object(chunk))

    def _check(self, error: Any) -> None:
        if error:
            kind, status, detail = event_error(error)
            raise RequestFailed(failure_of(kind, status, detail, model=self._model))

    def finish(self) -> str:
        if self._is_empty:
            raise _malformed("there is nothing in it")
        if self._is_thought:
            self._think(IN_CONTENT, self._held)
        return self._let_go()

    def settle(self) -> None:
        """Put the thoughts and calls into the answer, as far as they have come."""
        # Calls that nobody can answer are left out, and each of the others has an id.
        answer = self._answer
        answer.thoughts = {name: "".join(pieces) for name, pieces in self._thoughts.items()}
        named = [call for call in self._calls if call.name]
        if answer.endings and len(named) < len(self._calls):
            answer.endings.append("tool_calls")  # one was lost: what is left is no whole answer
        answer.calls = [
            ModelCall(call.id or _new_id(), call.name, _whole(call.arguments), call.extra)
            for call in named
        ]

    def _take_object(self, chunk: dict[str, Any]) -> str:
        answer = self._answer
        answer.model = chunk.get("model") or answer.model
        if tier := chunk.get("service_tier"):
            answer.price_context["service_tier"] = tier
        choice = _ours(chunk.get("choices"))
        self._check(choice.get("error"))
        self._count(chunk.get("usage") or choice.get("usage"))
        if reason := choice.get("finish_reason"):
            answer.endings.append(reason)
        delta = choice.get("delta") or choice.get("message")
        if delta and not isinstance(delta, dict):  # it may have been a part of the answer
            raise _malformed(f"{str(delta)[:40]!r} as delta")
        return self._take_delta(as_object(delta))

    def _count(self, usage: Any) -> None:
        """Take over the counts; some servers send them with each chunk, of the whole so far."""
        if isinstance(usage, dict):
            details = member(usage, "prompt_tokens_details")
            given = (member(usage, "prompt_tokens"), member(usage, "completion_tokens"))
            cached = (member(details, "cached_tokens"), member(details, "cache_write_tokens"))
            self._answer.tokens = tuple(map(_counted, (*given, *cached)))

    def _take_delta(self, delta: dict[str, Any]) -> str:
        if delta.get("refusal"):
            self._answer.endings.append("content_filter")
            return ""
        text = ""
        for name in _THOUGHT_FIELDS:
            if (thought := delta.get(name)) and isinstance(thought, str):
                text = self._let_go()
                self._think(name, thought)
                break
        text += self._take_text(_joined(delta.get("content")))
        for call in _objects(delta.get("tool_calls"), "tool_calls"):
            text += self._let_go()
            self._take_call(call)
        return text

    def _let_go(self) -> str:
        """Return the text that was held back: what follows it shows that no thought begins so."""
        if self._is_thought:
            return ""
        held, self._held = self._held, ""
        return self._say(held)

    def _think(self, name: str, thought: str) -> None:
        if thought:
            pieces = self._thoughts.setdefault(name, [])
            pieces += [_PARAGRAPH, thought] if pieces and self._last != name else [thought]
            self._last = name

    def _take_text(self, content: str) -> str:
        """Return what is text: a thought between tags, with which it may begin, is kept apart."""
        if self._has_text or not content:
            return self._say(content)
        held = self._held + content
        self._held = ""
        if not self._is_thought:
            start = held.lstrip()
            if start.startswith(_BEGIN):
                self._is_thought, held = True, start.removeprefix(_BEGIN)
            elif _BEGIN.startswith(start):
                self._held = held
                return ""
            else:
                return self._say(held)
        thought, end, rest = held.partition(_END)
        if not end:
            kept = next((n for n in range(len(_END) - 1, 0, -1) if held.endswith(_END[:n])), 0)
            self._held = held[len(held) - kept :]
            thought = held[: len(held) - kept]
        else:
            self._is_thought = False
        self._think(IN_CONTENT, thought)
        return self._take_text(rest.lstrip()) if end else ""

    def _say(self, text: str) -> str:
        if not text:
            return text
        is_apart = self._has_text and self._last != _TEXT
        self._last, self._has_text = _TEXT, True
        return _PARAGRAPH + text if is_apart else text

    def _take_call(self, piece: dict[str, Any]) -> None:
        """Put a piece of a call where it belongs: by its index, its id, or behind the last one."""
        function = as_object(piece.get("function"))
        index, own_id, name = piece.get("index"), piece.get("id"), function.get("name")
        index = index if isinstance(index, int | float | str) else None
        call = self._places.get(index) if index is not None else next(reversed(self._calls), None)
        if call is None or _is_another(call, own_id, name, index):
            call = _Call()
            self._calls.append(call)
            self._last = _CALL
        self._places[index] = call
        call.id = call.id or str(own_id or "")
        call.name += "" if name is None or name == call.name else str(name)
        given = function.get("arguments")
        call.arguments += [] if given in (None, "") else [given]
        call.extra = piece.get("extra_content") or call.extra


def _is_another(call: _Call, own_id: Any, name: Any, index: Any) -> bool:
    """Whether a piece begins another call, though its index is the same or it has none."""
    # Some servers give all calls the index 0, and some a new id to each piece of one call.
    if not name:
        return False
    return bool(own_id and call.id and own_id != call.id) or (index is None and bool(call.name))


def _whole(arguments: list[Any]) -> Any:
    """Return the arguments of a call, of which each piece should be a text, and may be anything."""
    if len(arguments) == 1:
        return arguments[0]
    if arguments and all(isinstance(one, dict) for one in arguments):
        return {key: one for piece in arguments for key, one in piece.items()}
    texts = (one if isinstance(one, str) else jsonl.encode(one).decode() for one in arguments)
    return "".join(texts)


def _ours(choices: Any) -> dict[str, Any]:
    """Return the choice that is ours; another one's end isn't ours."""
    each = _objects(choices, "choices")
    ours = (one for one in each if not isinstance(index := one.get("index"), int) or index == 0)
    return next(ours, dict[str, Any]())


def _joined(content: Any) -> str:
    """Return text that some servers send as a list of parts."""
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    spoken = (one for one in parts if member(one, "type") in ("text", None))
    texts = [one if isinstance(one, str) else member(one, "text") for one in spoken]
    return "".join(one for one in texts if isinstance(one, str))


def _counted(number: Any) -> Any:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _objects(value: Any, name: str) -> list[dict[str, Any]]:
    each = cast("list[Any]", value or [])
    if not isinstance(value or [], list) or not all(isinstance(one, dict) for one in each):
        raise _malformed(f"{str(value)[:40]!r} as {name}")
    return each


def _new_id() -> str:
    return f"call_{urandom(8).hex()}"


def _malformed(detail: str) -> RequestFailed:
    return RequestFailed(failure_of(FailureKind.MALFORMED, detail=detail))


def _loaded(data: bytes) -> Any:
    """Return JSON, also such as has `NaN` in it, as some servers write it."""
    try:
        return jsonl.decode(data)
    except ValueError:
        from json import loads

        return loads(data)
