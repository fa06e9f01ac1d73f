"""The model that a child asks, on the wire that serves it."""

import os

from outrider.models.messages import ChatModel
from outrider.models.wires import Wire, wire_of


def build_model(model: str, agent: str = "", wire: str = "auto") -> ChatModel:
    """Return the model that `provider:name` or `embedded` names, or raise `ModelUnavailable`."""
    # `wire` is the one to use; `auto` takes what this environment allows.
    match wire_of(model, os.environ) if wire == "auto" else wire:
        case Wire.EMBEDDED:
            from outrider.models.embedded.model import EmbeddedModel

            return EmbeddedModel(agent)
        case Wire.LEAN:
            from outrider.models.lean.model import LeanModel

            return LeanModel(model, os.environ)
        case _:
            from outrider.models.sdk.building import build_sdk_model

            return build_sdk_model(model)
