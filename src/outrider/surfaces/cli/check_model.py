"""Which model would answer, and whether it can: its key is there, its own server answers."""

import http.client
import os
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from outrider.delegation.project import Project
from outrider.models.resolution import is_embedded, needs
from outrider.surfaces.cli.checks import Check, Status

TIMEOUT_SECONDS = 3.0
REFUSED = (401, 403)


def model_check(project: Project) -> Check:
    """Return the finding on the model that an agent without one of its own would get."""
    choice = project.choice()
    named = f"{choice.model or 'none'} ({choice.reason})"
    if choice.problem:
        return Check("model", Status.FAIL, f"{named}: {choice.problem}")
    if is_embedded(choice.model):
        hint = "it finds and quotes, it doesn't reason; set a key such as OPENAI_API_KEY for more"
        return Check("model", Status.OK, f"{named}: {hint}")
    variables = choice.environment(os.environ)
    base = next((variables[name] for name in variables if name.endswith("_BASE_URL")), None)
    if base is None:
        key = next((name for name in needs(choice.model) if variables.get(name)), None)
        found = f"{key} is set" if key else "no key is needed"
        return Check("model", Status.OK, f"{named}: {found}; the provider was not asked")
    return _server_check(named, base, variables)


def _server_check(named: str, base: str, variables: Mapping[str, str]) -> Check:
    key = next((variables[name] for name in variables if name.endswith("_API_KEY")), None)
    address = urlsplit(base)
    place = f"{address.scheme}://{address.hostname}" + (f":{address.port}" if address.port else "")
    try:
        status = _ask(base, key)
    except (OSError, ValueError, http.client.HTTPException, ssl.SSLError) as error:
        return Check(
            "model", Status.FAIL, f"{named}: the server at {place} gives no answer: {error}"
        )
    if status in REFUSED:
        message = f"{named}: the server at {place} refuses the key (status {status})"
        return Check("model", Status.FAIL, message)
    return Check("model", Status.OK, f"{named}: the server at {place} answers")


def _ask(base: str, key: str | None) -> int:
    """Return the status of the server's list of models. No redirect is followed with the key."""
    address = urlsplit(base)
    if not address.hostname or address.scheme not in ("http", "https"):
        raise ValueError(f"{base!r} is no http address")
    secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(address.hostname, address.port, timeout=TIMEOUT_SECONDS)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        connection.request("GET", f"{address.path.rstrip('/')}/models", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()
