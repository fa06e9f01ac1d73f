"""Models of the provider layer: with an HTTP client that is built fast, and strict about ends."""

import os
import sys
from typing import Any, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from outrider.models.failures import ModelUnavailable
from outrider.models.sdk.model import SdkModel
from outrider.models.wires import CONNECT_SECONDS, SILENCE_SECONDS, trusted_certificates

_OWN_CLIENT = ("openai", "openai-chat", "openai-responses", "anthropic")


def build_sdk_model(model: str) -> SdkModel:
    """Return the model that `provider:name` names, or raise `ModelUnavailable`."""
    try:
        return SdkModel(model, _strict(infer_model(model, provider_factory=_provider)))
    except ImportError as error:
        raise ModelUnavailable(f"{model} needs a package that isn't installed: {error}") from error
    except UserError as error:
        # pydantic-ai appends a hint about its test model.
        reason = error.message.split(" To try Pydantic AI", 1)[0]
        raise ModelUnavailable(f"Can't use the model {model}: {reason}") from error
    except Exception as error:
        # A provider's SDK raises its own errors for settings it can't use.
        reason = str(error) or type(error).__name__
        raise ModelUnavailable(f"Can't set up the model {model}: {reason}") from error


def _provider(name: str) -> Provider[Any]:
    if name not in _OWN_CLIENT:
        return infer_provider(name)
    import httpx2

    timeout = httpx2.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
    trusted = trusted_certificates(*map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
    client = httpx2.AsyncClient(timeout=timeout, verify=trusted)
    return cast("Any", infer_provider_class(name))(http_client=client)


def _strict(model: Model) -> Model:
    """Return the same model; a stream that ends without a finish reason counts as cut."""
    # A model of another provider doesn't need this module, which takes long to import.
    if "pydantic_ai.models.openai" not in sys.modules:
        return model
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    from outrider.models.sdk.tolerant_chat import tolerant

    if not isinstance(model, OpenAIChatModel) or model.provider is None:
        return model
    profile = OpenAIModelProfile(
        openai_chat_streaming_requires_finish_reason=True,
        context_window=None,  # without a value a price list is searched for it each time
        supports_json_schema_output=True,
    )
    return tolerant(type(model))(model.model_name, provider=model.provider, profile=profile)
