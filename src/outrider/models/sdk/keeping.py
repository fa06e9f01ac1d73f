"""An answer in the provider layer's words, as JSON for a record and back."""

from typing import Any

from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse

from outrider.models.messages import ModelAnswer
from outrider.models.sdk.model import fill_answer


def native_to_json(response: ModelResponse) -> Any:
    """Return a response as JSON has it."""
    return ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]


def native_from_json(data: Any) -> ModelAnswer | None:
    """Return the answer that was kept; None where another version has kept it."""
    try:
        (response,) = ModelMessagesTypeAdapter.validate_python([data])
    except ValueError:
        return None
    if not isinstance(response, ModelResponse):
        return None
    answer = ModelAnswer(text=response.text or "")
    fill_answer(answer, response)
    return answer
