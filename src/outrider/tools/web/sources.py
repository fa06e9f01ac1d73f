"""Pages that show a file of a repository, and the address of the file itself."""

import re

_FILE = r"([^/?#]+/[^?#]+)"
_SHOWN = tuple(
    (re.compile(f"(https?://){page}"), source)
    for page, source in (
        (
            rf"(?:www\.)?github\.com/([^/?#]+/[^/?#]+)/(?:blob|raw|blame)/{_FILE}",
            r"https://raw.githubusercontent.com/\2/\3",
        ),
        (
            r"gist\.github\.com/([^/?#]+/[0-9a-f]{5,40})(/[0-9a-f]{40})?/?",
            r"https://gist.githubusercontent.com/\2/raw\3",
        ),
        (rf"(gitlab\.[^/?#]+/[^?#]+)/-/(?:blob|blame)/{_FILE}", r"\1\2/-/raw/\3"),
        (rf"(bitbucket\.org/[^/?#]+/[^/?#]+)/src/{_FILE}", r"\1\2/raw/\3"),
        (rf"(codeberg\.org/[^/?#]+/[^/?#]+)/src/{_FILE}", r"\1\2/raw/\3"),
    )
)


def source_address(url: str) -> str | None:
    """Return the address of the source that a page shows, or None where it shows none."""
    address = re.match(r"[^?#]*", url.strip())
    for page, source in _SHOWN:
        found = page.fullmatch(address[0] if address else "")
        if found:
            return found.expand(source)
    return None
