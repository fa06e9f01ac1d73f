"""Guarantees that well-known credential files are recognised by their path, in any spelling.

Only the path decides, never the content: the question has to be answered before a file is opened.
"""

import os
import re
from collections.abc import Iterator
from fnmatch import translate

from outrider.workspaces.names import folded

# Globs for folded names.
_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass",
    ".my.cnf", ".htpasswd", ".git-credentials", ".vault-token", ".dockercfg", ".boto", ".s3cfg",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx",
    "*.jks", "*.keystore", "*.kdbx", "*.tfstate", "*.tfstate.*", "kubeconfig", "*.kubeconfig",
    "credentials.json", "client_secret*.json", "application_default_credentials.json",
    "*service?account*.json", "*serviceaccount*.json", "*firebase-adminsdk*.json",
    "credentials.tfrc.json", ".terraformrc",
)  # fmt: skip
# Globs for the end of a folded path, in which `*` also spans folders.
_PATHS = (
    ".aws/credentials", ".aws/config", ".kube/config", ".docker/config.json", ".m2/settings.xml",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".config/gh/hosts.yml",
    ".config/git/credentials", ".config/rclone/rclone.conf",
    ".ssh/*", ".gnupg/*", ".azure/*", ".config/gcloud/*", ".aws/sso/*", ".aws/cli/*",
    ".ray/auth_token",
)  # fmt: skip
_NAME = re.compile("|".join(map(translate, _NAMES)))
_PATH = re.compile("|".join(translate(f"*/{path}") for path in _PATHS))
# Templates, and what is meant to be public.
_HARMLESS = re.compile(
    r"(?:.*\.)?env\.(?:example|sample|template|dist)|(?:example|sample|template)\.env"
    r"|.*\.pub|known_hosts",
    re.DOTALL,
)


def credentials_below(home: str) -> Iterator[str]:
    """Yield what there is of the well-known credential files and folders in a home folder."""
    for path in (*_NAMES, *(one.removesuffix("/*") for one in _PATHS)):
        whole = f"{home}/{path}"
        if not set("*?[") & set(path) and os.path.lexists(whole):
            yield os.path.realpath(whole)


def is_credential(path: str) -> bool:
    """Whether the file at an absolute path is a well-known credential file."""
    # Some systems drop dots and blanks at the end of a name.
    plain = folded(path).rstrip(". ")
    name = plain[plain.rfind("/") + 1 :]
    if not _NAME.match(name) and not ("/." in plain and _PATH.match(plain)):
        return False
    return _HARMLESS.fullmatch(name) is None
