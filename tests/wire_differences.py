"""Where the lean wire does something else than the SDK's, on purpose: in what, and why.

A reason stands with the cases it is the reason for; a `*` in a name stands for anything.
"""

import re

WANTED: dict[str, tuple[str, ...]] = {
    # What is a failure
    "of several finish reasons the worst counts": (
        "finish: length, then *", "finish: filter, then *", "finish: error, then stop",
        "finish: nobody knows, then stop", "finish: calls, then stop", "*.finish_reason *",
    ),
    "an event named error is a failure, whatever its data looks like and whatever follows": (
        "error event*: an event by name alone", "error event*: an event by name with a text",
        "error event*: an event by name without data",
        "error event*: an event by name that says done",
    ),
    "an error counts wherever it stands, also where an object says that it is one": (
        "error event*: vllm before 0.10", "error event*: in the choice alone",
    ),
    "an `error:` field is an error, as llama.cpp wrote it": (
        "error event*: llama.cpp, as a field of its own", "captured: llamacpp-error-field",
    ),
    "a finish, a text, a call or a refusal of another choice isn't ours": (
        "choices: another before ours", "choices: another in chunks of its own",
        "choices: another's *", "choices: only another's finish",
        "choices: an index of one alone", "*.choices.0.index *",
    ),
    "a finish counts though its chunk has no delta": (
        "finish: in a chunk whose delta is null",
        "finish: in a chunk without a delta", "*.choices.0.delta *",
    ),
    "a refusal is final, also where the stream ends early": ("refusal without a finish",),
    # What is read
    "an answer is taken that comes as JSON, though a stream was asked for": (
        "json: a*", "json: cut at the limit", "json: filtered", "json: no *",
        "status 201", "status 202", "status 203", "status 205", "status 206",
        "delta: a message instead",
    ),
    "a server that refuses `stream_options` is asked once more without": (
        "stream options refused*",
    ),
    "an event without data is none, whatever its name, and a comment may be anything": (
        "an id alone", "an event without data", "events named thread", "no utf-8 in a comment",
    ),
    "no compression is asked for, so none is undone": ("compressed though nobody asked",),
    "what nobody uses isn't checked": (
        "head: created 1000000000000000000000000000000", "head: created 'now'",
        "choices: logprobs as *", "a number of many digits",
    ),
    "arguments are put together whatever their types": (
        "call: arguments as a number", "call: an object after a text",
        "call: a text after an object", "*.tool_calls.0.function.arguments *",
    ),
    "text is taken from a part that has no type, or comes alone": (
        "content: a part without a type", "content: one part as an object",
    ),
    "a stream that ends inside a letter was cut, and is asked for again": (
        "ended inside a letter *",
    ),
    # Calls
    "each call has its own id, also where all have the same index": (
        "call: the same index, two ids", "captured: ollama-two-calls-one-index",
    ),
    "the first id of a call is its id": ("call: another id later",),
    "a name that comes with each piece is one name": ("call: name in each piece",),
    "a call without a name can't be answered": ("call: a name that is empty",),
    "ids and names are sent back as the texts they were shown as": (
        "call: an id that is a number", "call: a name that is a number",
        "*.tool_calls.0.id *", "*.tool_calls.0.function.name *",
    ),
    # Thoughts
    "tags are found also where they don't stand in chunks of their own": (
        "thought: tags", "thought: tags on lines", "thought: tags in pieces",
        "thought: tags byte by byte", "thought: tags opened in a chunk with more",
        "thought: tags closed in a chunk with more", "thought: tags after blanks",
    ),
    "only an answer's beginning can be a thought": ("thought: tags later",),
    "thoughts between tags are sent back as one, and empty ones not at all": (
        "thought: tags twice", "thought: tags empty",
    ),
    "the blank line between two thoughts is counted": ("thought: between two calls",),
    # Usage
    "the counts that are good are used, though others beside them aren't": (
        "*.usage.*", "usage {'prompt_tokens': 10}*", "usage {'completion_tokens': 5}*",
        "usage {'prompt_tokens': 10, 'completion_tokens': None}",
        "usage {'prompt_tokens': 20, 'completion_tokens': 7, 'total_tokens': 27, "
        "'completion_tokens_details': 'none'}",
        "usage {'prompt_tokens': 20, 'completion_tokens': 7, 'total_tokens': 27, "
        "'prompt_tokens_details': {'cached_tokens': -1}}",
    ),
    "a text is no count": (
        "usage {'prompt_tokens': 20, 'completion_tokens': 7, 'total_tokens': 27, "
        "'prompt_tokens_details': {'cached_tokens': '8'}}",
    ),
    "what is no usage doesn't undo the usage before it": (
        "usage lots after*", "usage 7 after*", "usage 0.5 after*", "usage True after*",
        "usage [] after*", "usage [1] after*", "usage {} after*",
    ),
    "usage inside the choice counts": (
        "usage: in the choice", "captured: moonshot-usage-in-choice",
    ),
    # What is told of a failure
    "an error that is a text is told": (
        "status * with ollama's own", "status * with lm studio", "an error body that is chunked",
        "an error body in pieces", "error event*: ollama", "error event*: a text",
    ),
    "an error without words has none": (
        "error event*: a number", "error event*: a list", "error event*: true",
    ),
    "where a redirect leads is told, and that no key goes there": (
        "redirect *", "status 300", "status 304",
    ),
    "llama.cpp's word for a full window is known": ("a window that overflows, at llama.cpp",),
    "a server that answers 200 has loaded its model": (
        "error event first: overloaded, as the code",
    ),
    "a key that can't be sent is refused before anything is asked": (
        "a key in letters of elsewhere", "variables: a key of two lines",
    ),
    "OpenRouter has a wire of its own": ("flagged input, inside",),
    # What is asked
    "an empty variable is none, and without a key none is sent": (
        "an organisation that is empty", "ollama:*: a turn", "ollama:*: a report",
    ),
    "blanks around a variable, and slashes at an address's end, are no part of it": (
        "an address with two slashes", "an address with blanks around",
        "variables: a key with blanks around",
    ),
    "a schema that recurs keeps its own root": ("*: a schema that recurs",),
    "a letter that can't be sent is replaced": ("a task of a lone surrogate",),
    "seconds to wait are digits": ("wait: a plus", "wait: an underscore"),
    "a wait beyond all numbers is a long one": ("wait: too many seconds",),
    "of two waits the last counts": ("wait: twice",),
}  # fmt: skip

# What the SDK says where it trips over a value of the wrong type.
_TRIPPED = re.compile(
    "object has no attribute|object is not|validation error|unhashable type|can only concatenate"
    "|expected str instance|not supported between|Expected bytes|deltas to non-|maximum recursion"
    "|must be str|unsupported operand|failed: 0$"
)


def reason_for(name: str) -> str | None:
    """Return why a case may differ; None where it may not."""
    for why, cases in WANTED.items():
        for one in cases:
            if re.fullmatch(".*".join(map(re.escape, one.split("*"))), name):
                return why
    return None


def has_tripped(error: object) -> bool:
    """Whether an error is one of Python's own, over a value that nobody checked.

    The lean wire passes such a value over, or says that it can't read the response.
    """
    return isinstance(error, str) and bool(_TRIPPED.search(error))
