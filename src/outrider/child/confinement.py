"""A child that has no tool that writes enters its walls before it does anything for a model."""

import os
from collections.abc import Iterator

from outrider.models.known_providers import NETWORK_VARIABLES, PROVIDERS, ModelProvider
from outrider.processes import walls
from outrider.protocol.brief import Brief
from outrider.protocol.isolation import Isolation
from outrider.workspaces.credentials import credentials_below


def confine(brief: Brief) -> Isolation:
    """Confine this process as its brief says, and return what holds."""
    if not brief.confined:
        return Isolation()
    missing = walls.enter(walls_for(brief))
    if not missing:
        os.environ["TMPDIR"] = "/tmp"  # noqa: S108  # its own
    provider = _provider(brief)
    if provider and provider.signs_in_by_file and not brief.allow_credential_files:
        missing += (f"credential files: {provider.name} signs in with them",)
    return Isolation("readonly", missing=missing)


def walls_for(brief: Brief) -> walls.Walls:
    """Return what a child sees of the files and may write to."""
    home, state = map(os.path.realpath, (os.path.expanduser("~"), brief.state_folder or os.devnull))
    provider, kept = _provider(brief), [f"{state}/web-cache"] if brief.web else []
    needs_credentials = provider is not None and provider.signs_in_by_file
    for folder in kept:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return walls.Walls(
        writable=(f"{state}/runs/{brief.run_id}", *kept),
        seen=(home, *_seen(brief)),
        private=(f"{state}/runs",),
        hidden=()
        if brief.allow_credential_files or needs_credentials
        else tuple(credentials_below(home)),
        # Language servers keep caches there, and some don't start where they can't.
        home=home if brief.lsp else None,
    )


def _seen(brief: Brief) -> Iterator[str]:
    yield brief.cwd
    yield from (os.path.expanduser(root) for root in brief.allowed_roots)
    yield from filter(os.path.isabs, os.get_exec_path())
    yield from brief.tool_path
    provider = _provider(brief)
    # Certificates and keys lie where these say.
    for name in (*NETWORK_VARIABLES, *(provider.others if provider else ())):
        if os.path.isabs(path := os.environ.get(name, "")):
            yield path


def _provider(brief: Brief) -> ModelProvider | None:
    return PROVIDERS.get(brief.model.partition(":")[0])
