"""What a record keeps of an answer beside its text and calls, to send it again byte for byte.

That is what only the provider understands: thoughts, their signatures, arguments as it wrote them.
"""

from contextlib import suppress
from typing import Any

from outrider.models.messages import ModelAnswer, ModelCall
from outrider.protocol import jsonl
from outrider.protocol.data import as_object

MAX_ARGUMENTS = 1 << 20


def kept_of(answer: ModelAnswer) -> dict[str, Any] | None:
    """Return what has to be kept of an answer; None where text and calls are all of it."""
    if answer.native is not None:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        return {"native": ModelMessagesTypeAdapter.dump_python([answer.native], mode="json")[0]}
    raw = {one.id: one.arguments for one in answer.calls if _is_written_otherwise(one)}
    if sum(map(len, map(str, raw.values()))) > MAX_ARGUMENTS:
        raw = {}  # an event has them twice otherwise, and its size is limited
    extra = {one.id: one.extra for one in answer.calls if one.extra}
    kept = {"thoughts": answer.thoughts, "arguments": raw, "extra": extra}
    return {name: value for name, value in kept.items() if value} or None


def _is_written_otherwise(call: ModelCall) -> bool:
    """Whether a call's arguments aren't written as we would write them."""
    with suppress(ValueError, RecursionError):
        given = call.arguments.encode() if isinstance(call.arguments, str) else None
        return given is not None and jsonl.encode(jsonl.decode(given)) != given
    return True


def restored(text: str, calls: list[ModelCall], kept: Any, *, native: bool = False) -> ModelAnswer:
    """Return an answer of before; `native` says whether the model takes the provider layer's."""
    kept = as_object(kept)
    if native and "native" in kept:
        from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse

        from outrider.models.sdk.model import fill_answer

        with suppress(ValueError):  # another version has kept it
            (response,) = ModelMessagesTypeAdapter.validate_python([kept["native"]])
            if isinstance(response, ModelResponse):
                fill_answer(answer := ModelAnswer(text=response.text or ""), response)
                return answer
    raw, extra = as_object(kept.get("arguments")), as_object(kept.get("extra"))
    made = [
        ModelCall(one.id, one.name, raw.get(one.id, one.arguments), extra.get(one.id))
        for one in calls
    ]
    return ModelAnswer(text=text, calls=made, thoughts=as_object(kept.get("thoughts")))
