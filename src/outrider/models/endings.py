"""How a model's message can end, on each wire: what isn't in this table has failed."""

from enum import StrEnum
from unicodedata import category


class StopReason(StrEnum):
    """What a finish reason says of a message: whole, whole with tool calls, cut, or failed."""

    DONE = "stop"
    CALLED = "tool_call"
    CUT = "length"
    FILTERED = "content_filter"
    FAILED = "error"


# For each wire the words for DONE, CALLED, CUT, FILTERED and FAILED. `openai chat` has those of
# zai, deepseek, together and vllm too, and mistral and huggingface have theirs beside it.
WIRES = {
    "pydantic-ai, embedded": ("stop", "tool_call", "length", "content_filter", "error"),
    "openai chat, groq": ("stop eos", "tool_calls function_call",
        "length model_context_window_exceeded", "content_filter sensitive",
        "error abort network_error insufficient_system_resource"),
    "mistral": ("stop", "tool_calls", "length model_length", "", "error"),
    "huggingface": ("stop eos_token stop_sequence", "tool_calls", "length", "", ""),
    "openai responses": ("completed", "", "max_output_tokens", "content_filter",
        "failed cancelled incomplete in_progress queued max_messages steered"),
    "anthropic": ("end_turn stop_sequence compaction", "tool_use",
        "max_tokens model_context_window_exceeded", "refusal", "pause_turn"),
    "google": ("STOP", "", "MAX_TOKENS CONTINUATION",
        "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT "
        "MODEL_ARMOR", "FINISH_REASON_UNSPECIFIED OTHER LANGUAGE MALFORMED_FUNCTION_CALL "
        "UNEXPECTED_TOOL_CALL NO_IMAGE"),
    "bedrock": ("end_turn stop_sequence", "tool_use", "max_tokens model_context_window_exceeded",
        "content_filtered guardrail_intervened", "malformed_model_output malformed_tool_use"),
    "cohere": ("COMPLETE STOP_SEQUENCE", "TOOL_CALL", "MAX_TOKENS", "", "ERROR TIMEOUT"),
    "pi": ("stop", "toolUse", "length", "", "error aborted"),
}  # fmt: skip
# No word means two things, so a server may use another wire's: many pass on what they got.
_REASONS = {
    word: reason
    for wire in WIRES.values()
    for reason, words in zip(StopReason, wire, strict=True)
    for word in words.split()
}
CUT = "The model's answer was cut at its token limit."
EMPTY = "The model gave an empty answer."
_THOUGHT, _THOUGHT_END = "<think>", "</think>"


def stop_reason(*said: object) -> StopReason | None:
    """Return what the finish reasons of one message say: the worst counts; None without any."""
    given = [one if isinstance(one, str) else "" for one in said if one is not None]
    reasons = {_REASONS.get(one, StopReason.FAILED) for one in given}
    return next((reason for reason in reversed(StopReason) if reason in reasons), None)


def answer_in(text: str) -> str:
    """Return a message's text without the thoughts it begins with; empty if nothing is visible."""
    at = begin = _visible_from(text, 0)
    while text.startswith(_THOUGHT, at):
        end = text.find(_THOUGHT_END, at)
        at = len(text) if end < 0 else _visible_from(text, end + len(_THOUGHT_END))
    return text if begin == at < len(text) else text[at:]


def _visible_from(text: str, start: int) -> int:
    """Return where the next character is that is no space, control, format or lone mark."""
    places = range(start, len(text))
    return next((at for at in places if category(text[at])[0] not in "CMZ"), len(text))
