"""Models as the child uses them: one request each, no hidden retries, and no cut stream accepted.

Attempts, deadlines and outcomes would be wrong otherwise.
"""

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from outrider.models.failures import ModelUnavailable
from outrider.models.known_providers import EMBEDDED
from outrider.models.resolution import is_embedded

if TYPE_CHECKING:
    from ssl import SSLContext

    from pydantic_ai.models import Model
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings

_OWN_CLIENT = ("openai", "openai-chat", "openai-responses", "anthropic")
_CONNECT_SECONDS = 10.0
# Only against a dead peer: the run has deadlines of its own.
_SILENCE_SECONDS = 3600.0


def build_model(model: str, agent: str = "") -> "Model":
    """Return the model that `provider:name` or `embedded` names, or raise `ModelUnavailable`."""
    if is_embedded(model):
        from outrider.models.embedded.model import EmbeddedModel

        return EmbeddedModel(agent)
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        provider, _, name = model.partition(":")
        if provider == "openai-chat":  # inferring it would cost each child a megabyte
            from pydantic_ai.models.openai import OpenAIChatModel

            return OpenAIChatModel(name, provider=_provider(provider), profile=_strict_profile())
        return _strict(infer_model(model, provider_factory=_provider))
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


def _provider(name: str) -> "Provider[Any]":
    """Return the provider that a model's prefix names, with an HTTP client that is built fast."""
    from pydantic_ai.providers import infer_provider, infer_provider_class

    if name not in _OWN_CLIENT:
        return infer_provider(name)
    import httpx2

    client = httpx2.AsyncClient(
        timeout=httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS),
        verify=_tls(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
    )
    if name == "openai-chat":
        from pydantic_ai.providers.openai import OpenAIProvider

        from outrider.models.lean_openai import LeanOpenAI

        return OpenAIProvider(openai_client=LeanOpenAI(http_client=client))
    return cast("Any", infer_provider_class(name))(http_client=client)


@cache
def _tls(_cert_file: str | None, _cert_folder: str | None) -> "SSLContext":
    """Return the trusted certificates; reading them takes 20 ms, once before children fork."""
    import httpcore2

    return httpcore2.default_ssl_context()


def _strict(model: "Model") -> "Model":
    """Return the same model; a stream that ends without a finish reason counts as cut."""
    # A model of another provider doesn't need this module, which takes long to import.
    if "pydantic_ai.models.openai" not in sys.modules:
        return model
    from pydantic_ai.models.openai import OpenAIChatModel

    if not isinstance(model, OpenAIChatModel) or model.provider is None:
        return model
    return type(model)(model.model_name, provider=model.provider, profile=_strict_profile())


def _strict_profile() -> "OpenAIModelProfile":
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    # Without a value for the window a price list is searched for it each time.
    return OpenAIModelProfile(
        openai_chat_streaming_requires_finish_reason=True,
        context_window=None,
        supports_json_schema_output=True,
    )


def request_settings(model: "Model") -> "ModelSettings":
    """Return the settings every request to `model` is sent with."""
    if model.system == EMBEDDED:
        return {}
    settings = {"max_retries": 0, "timeout": _SILENCE_SECONDS}
    supported = settings.keys() - model.unsupported_settings
    return cast("ModelSettings", {name: settings[name] for name in supported})
