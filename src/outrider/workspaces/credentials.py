"""Guarantees that well-known credential files are recognised by their path, in any spelling.

Only the path decides, never the content: the question has to be answered before a file is opened.
"""

import re

from outrider.workspaces.names import folded

# Globs, so that a search program can be told the same; matched against folded names.
_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass",
    ".my.cnf", ".htpasswd", ".git-credentials", ".vault-token", ".dockercfg", ".boto", ".s3cfg",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx",
    "*.jks", "*.keystore", "*.kdbx", "*.tfstate", "*.tfstate.*", "kubeconfig", "*.kubeconfig",
    "credentials.json", "client_secret*.json", "application_default_credentials.json",
    "*service?account*.json", "*serviceaccount*.json", "*firebase-adminsdk*.json",
    "credentials.tfrc.json", ".terraformrc",
)  # fmt: skip
# The end of a path: folders, then a name.
_PATHS = (
    ".aws/credentials", ".aws/config", ".kube/config", ".docker/config.json", ".m2/settings.xml",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".config/gh/hosts.yml",
    ".config/git/credentials", ".config/rclone/rclone.conf",
)  # fmt: skip
# Everything below such a folder, but for what is meant to be public.
_FOLDERS = (".ssh", ".gnupg", ".azure", ".config/gcloud", ".aws/sso", ".aws/cli")

GLOBS = (
    *_NAMES,
    *(f"**/{path}" for path in _PATHS),
    *(f"**/{folder}/**" for folder in _FOLDERS),
)
"""What every credential file matches, and some harmless files too."""

_HARMLESS = re.compile(
    r"(?:.*\.)?env\.(?:example|sample|template|dist)|(?:example|sample|template)\.env"
    r"|.*\.pub|known_hosts",
    re.DOTALL,
)
_EXACT = frozenset(glob for glob in _NAMES if not set(glob) & set("*?"))
_SUFFIXES = tuple(glob[1:] for glob in _NAMES if glob[0] == "*" and not set(glob[1:]) & set("*?"))
_OTHERS = re.compile(
    "|".join(
        re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".")
        for glob in _NAMES
        if set(glob[1:]) & set("*?")
    ),
    re.DOTALL,
)
_PATH_ENDS = tuple(f"/{path}" for path in _PATHS)
_INSIDE = tuple(f"/{folder}/" for folder in _FOLDERS)


def is_credential(path: str) -> bool:
    """Whether the file at an absolute path is a well-known credential file."""
    # Some systems drop dots and blanks at the end of a name.
    plain = folded(path).rstrip(". ")
    name = plain[plain.rfind("/") + 1 :]
    suspect = (
        name in _EXACT
        or name.endswith(_SUFFIXES)
        or _OTHERS.fullmatch(name) is not None
        or plain.endswith(_PATH_ENDS)
        or ("/." in plain and any(folder in plain for folder in _INSIDE))
    )
    return suspect and _HARMLESS.fullmatch(name) is None
