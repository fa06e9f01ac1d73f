"""The providers a model can be named from: their keys, variables, packages and default models."""

from outrider.protocol.data import frozen

EMBEDDED = "embedded"

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

PROXY_VARIABLES = (*_PROXIES, *map(str.lower, _PROXIES))  # what leads requests through a proxy
NETWORK_VARIABLES = (*PROXY_VARIABLES, "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What the HTTP client of any provider reads."""


@frozen
class ModelProvider:
    """A provider: what it reads from the environment, and its default model."""

    name: str
    keys: tuple[str, ...] = ()  # variables of which one must be set; none: it signs in otherwise
    others: tuple[str, ...] = ()  # the other variables it reads: base URL, organisation, region
    default: str | None = None  # the model to use when nothing but one of its keys is given
    module: str | None = None  # has to be importable; None: the default install has it

    @property
    def extra(self) -> str | None:
        """The extra of pydantic-ai-slim that installs `module`."""
        return self.module and self.name.removesuffix("-cloud")

    @property
    def signs_in_by_file(self) -> bool:
        """Whether it needs no key because it may find one in files of the user's."""
        return not self.keys and self.module is not None


_OPENAI_KEYS = ("OPENAI_API_KEY",)
_OPENAI_OTHERS = ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")
_ANTHROPIC_OTHERS = ("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS")
_OPENROUTER_OTHERS = ("OPENROUTER_APP_URL", "OPENROUTER_APP_TITLE")
_AZURE_KEYS = ("AZURE_OPENAI_API_KEY",)
_AZURE_OTHERS = ("AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION")
_GOOGLE_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_GOOGLE_CLOUD = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
_AWS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
)  # fmt: skip

# Keys are looked for in this order.
_PROVIDERS = (
    ModelProvider("openai", _OPENAI_KEYS, _OPENAI_OTHERS, default="gpt-6.1-terra"),
    ModelProvider("anthropic", ("ANTHROPIC_API_KEY",), _ANTHROPIC_OTHERS, "claude-sonnet-5-5"),
    ModelProvider("google", _GOOGLE_KEYS, (), "gemini-flash-latest", "google.genai"),
    ModelProvider("openrouter", ("OPENROUTER_API_KEY",), _OPENROUTER_OTHERS, "openrouter/auto"),
    ModelProvider("deepseek", ("DEEPSEEK_API_KEY",), default="deepseek-chat"),
    ModelProvider("mistral", ("MISTRAL_API_KEY",), (), "mistral-large-latest", "mistralai"),
    ModelProvider("groq", ("GROQ_API_KEY",), ("GROQ_BASE_URL",), "openai/gpt-oss-120b", "groq"),
    ModelProvider("moonshotai", ("MOONSHOTAI_API_KEY",), ("MOONSHOTAI_BASE_URL",), "kimi-latest"),
    ModelProvider("cerebras", ("CEREBRAS_API_KEY",), default="gpt-oss-120b"),
    ModelProvider("openai-chat", _OPENAI_KEYS, _OPENAI_OTHERS),
    ModelProvider("openai-responses", _OPENAI_KEYS, _OPENAI_OTHERS),
    ModelProvider("alibaba", ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY")),
    ModelProvider("azure", _AZURE_KEYS, _AZURE_OTHERS),
    ModelProvider("azure-responses", _AZURE_KEYS, _AZURE_OTHERS),
    ModelProvider("bedrock", (), _AWS, module="boto3"),
    ModelProvider("cohere", ("CO_API_KEY",), ("CO_BASE_URL",), module="cohere"),
    ModelProvider("fireworks", ("FIREWORKS_API_KEY",)),
    ModelProvider("google-cloud", (), (*_GOOGLE_KEYS, *_GOOGLE_CLOUD), module="google.genai"),
    ModelProvider("heroku", ("HEROKU_INFERENCE_KEY",), ("HEROKU_INFERENCE_URL",)),
    ModelProvider("huggingface", ("HF_TOKEN",), module="huggingface_hub"),
    ModelProvider("meta", ("META_API_KEY",)),
    ModelProvider("nebius", ("NEBIUS_API_KEY",)),
    ModelProvider("ollama", (), ("OLLAMA_BASE_URL", "OLLAMA_API_KEY")),
    ModelProvider("ovhcloud", ("OVHCLOUD_API_KEY",)),
    ModelProvider("sambanova", ("SAMBANOVA_API_KEY",), ("SAMBANOVA_BASE_URL",)),
    ModelProvider("together", ("TOGETHER_API_KEY",)),
    ModelProvider("vercel", ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN")),
    ModelProvider("vllm", (), ("VLLM_BASE_URL", "VLLM_API_KEY")),
    ModelProvider("xai", ("XAI_API_KEY",), module="xai_sdk"),
    ModelProvider("zai", ("ZAI_API_KEY",)),
)

PROVIDERS: dict[str, ModelProvider] = {provider.name: provider for provider in _PROVIDERS}

# The short names that agent files written for other hosts use.
ALIASES = {
    "sonnet": "anthropic:claude-sonnet-5-5",
    "opus": "anthropic:claude-opus-5-5",
    "haiku": "anthropic:claude-haiku-5-5",
}
