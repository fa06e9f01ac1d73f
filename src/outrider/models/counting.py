"""The tokens of a request: as the provider counted them, or estimated where it didn't."""

from collections.abc import Iterable
from dataclasses import replace

from outrider.models.cost import cost_of
from outrider.models.known_providers import EMBEDDED
from outrider.models.messages import Conversation, Message, ModelAnswer, OfferedTools
from outrider.protocol.usage import Usage, counted_usage, estimated_tokens


def count_tokens(answer: ModelAnswer, sent: Conversation, tools: OfferedTools) -> Usage:
    """Return the tokens of an answer, in counts that can be relied on, and their price."""

    def size() -> int:
        shapes = (f"{one.description}{one.parameters}" for one in tools)
        return estimated_tokens(*texts_of(sent), *shapes)

    usage = counted_usage(answer.tokens, size, estimated_tokens(*texts_of([answer])))
    cost, known = cost_of(answer, usage)
    is_estimate = usage.estimated or answer.provider == EMBEDDED
    return replace(usage, cost=cost, cost_known=known, estimated=is_estimate)


def texts_of(messages: Iterable[Message]) -> list[str]:
    """Return the texts of a conversation: what is said and thought, and the arguments of calls."""
    texts: list[str] = []
    for message in messages:
        texts.append(message.text)
        if isinstance(message, ModelAnswer):
            texts += message.thoughts.values()
            texts += (str(call.arguments or "") for call in message.calls)
    return texts
