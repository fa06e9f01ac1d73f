"""The runtimes that an agent can name, and what each of them needs and can't do."""

from collections.abc import Mapping
from typing import Any

from outrider.agents.definitions import NATIVE, PI
from outrider.agents.permissions import Permit
from outrider.masking import Masker
from outrider.models.resolution import ModelChoice, choose_model
from outrider.runtimes.runtime import Runtime
from outrider.settings.keys import Config


class RuntimeKind:
    """What delegation knows of a runtime before a task runs in it: here, of the native one."""

    has_report_back = True
    """Whether its children have the tool; otherwise the schema is put into words."""
    takes_messages = True
    """Whether its children can be told something while they work, and be resumed."""
    warnings: tuple[str, ...] = ()  # what every caller should know of it

    def create(
        self, config: Config, env: Mapping[str, str], masker: Masker, *, one_shot: bool
    ) -> Runtime:
        """Return the runtime for one task of a caller with this environment."""
        from outrider.runtimes.native.runtime import NativeRuntime

        return NativeRuntime(env, keep_minutes=config.warm.keep_minutes, one_shot=one_shot)

    def permit(self, given: Permit) -> Permit:
        """Return a permit without what the runtime doesn't have."""
        return given

    choose_model = staticmethod(choose_model)


class PiKind(RuntimeKind):
    """The real pi: with its own tools, its own models, and no `report_back`."""

    has_report_back = takes_messages = False
    warnings = (
        "the agent runs in pi, which reads files itself, so secrets in them reach its model; the "
        "receipt is what pi reports, without hashes",
    )

    def create(
        self, config: Config, env: Mapping[str, str], masker: Masker, *, one_shot: bool
    ) -> Runtime:
        from outrider.runtimes.pi.runtime import PiRuntime

        return PiRuntime(masker, config.limits.event_bytes)

    def permit(self, given: Permit) -> Permit:
        from outrider.runtimes.pi.choices import for_pi

        return for_pi(given)

    @staticmethod
    def choose_model(*, local_servers: object = None, **wishes: Any) -> ModelChoice:
        from outrider.runtimes.pi.choices import choose_pi_model

        return choose_pi_model(**wishes)


_KINDS = {NATIVE: RuntimeKind(), PI: PiKind()}


def runtime_kind(name: str) -> RuntimeKind:
    """Return a runtime by its name; an agent that names another one is never run."""
    return _KINDS.get(name, _KINDS[NATIVE])
