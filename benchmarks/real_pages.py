"""What `fetch_content` loses of sixteen pages of documentation that real packages ship.

    python -m benchmarks.real_pages

Downloads the packages with pip and npm, takes a page of each, and looks in its Markdown for every
paragraph, heading, list item and cell of the page's content, and for every block of code byte for
byte. What there is to find is read with the parser of the standard library, as the tags come; the
reader doesn't use that. The pages are made by eleven generators or by hand. Exits with 1 if
anything is lost.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from itertools import takewhile
from operator import ne
from pathlib import Path

from benchmarks.pages import outrider


@dataclass(frozen=True)
class Source:
    """A page in a package, and the element that holds what a reader came for."""

    package: str
    path: str
    element: tuple[str, str, str] = ("body", "", "")
    """The tag of that element, and an attribute of it with its value."""


_SPHINX = ("div", "class", "body")
SOURCES = (
    Source("cssutils==2.11.1", "docs/html/docs/css.html", _SPHINX),
    Source("docutils==0.22.2", "docs/user/rst/quickref.html"),
    Source("mako==1.3.10", "doc/usage.html", ("div", "id", "docs-body")),
    Source("mercurial==7.1.1", "doc/html/topic-config.html"),
    Source("paramiko==4.0.0", "docs/api/client.html", _SPHINX),
    Source("ply==3.11", "doc/ply.html"),
    Source("quixote==3.7", "doc/widgets.html"),
    Source("bignumber.js@9.3.1", "doc/API.html", ("div", "class", "container")),
    Source("cannon@0.6.2", "docs/classes/Body.html", ("div", "id", "docs-main")),
    Source(
        "chart.js@3.9.1",
        "dist/docs/axes/index.html",
        ("div", "class", "theme-default-content content__default"),
    ),
    Source("gl-matrix@2.8.1", "docs/module-mat4.html", ("div", "id", "main")),
    Source("npm@10.9.9", "configuring-npm/package-json.html", ("div", "id", "_content")),
    Source("paper@0.12.20", "dist/docs/classes/Path.html", ("article", "class", "reference")),
    Source(
        "rot-js@2.2.1",
        "classes/display_display.default.html",
        ("div", "class", "col-8 col-content"),
    ),
    Source("vis@4.21.0", "docs/timeline/index.html", ("div", "class", "container full")),
    Source("yuidocjs@0.10.2", "api/classes/DocBuilder.html", ("div", "id", "docs-main")),
)
_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "nav", "button", "title"})
_UNSEEN = frozenset({"sr-only", "visually-hidden", "headerlink"})
_BLOCKS = frozenset(
    """address article aside blockquote body caption center dd details div dl dt fieldset figcaption
    figure footer form h1 h2 h3 h4 h5 h6 header hr li main ol p pre section summary table tbody td
    tfoot th thead tr ul""".split()  # noqa: SIM905
)
_PERMALINK = re.compile(r"\s*[¶#§🔗]\s*$")


@dataclass(frozen=True)
class Content:
    """What there is to find in a page: each text, with how often it stands there."""

    texts: Counter[str] = field(default_factory=Counter[str])
    headings: Counter[str] = field(default_factory=Counter[str])
    codes: Counter[str] = field(default_factory=Counter[str])


class ContentParser(HTMLParser):
    """Reads the content of a page from its tags as they come, without a tree."""

    def __init__(self, element: tuple[str, str, str]) -> None:
        super().__init__(convert_charrefs=True)
        self.content = Content()
        self._element = element
        self._depth = 0
        self._skipped: list[str] = []
        self._tag = ""
        self._text: list[str] = []
        self._in_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enter the content, or a block of it."""
        name, attribute, value = self._element
        if tag == name and (self._depth or not attribute or dict(attrs).get(attribute) == value):
            self._depth += 1
        classes = set((dict(attrs).get("class") or "").split())
        if tag in _SKIPPED or classes & _UNSEEN or (self._skipped and tag == self._skipped[-1]):
            self._skipped.append(tag)
        elif self._in_code:
            self._text.append("\n" if tag == "br" else "")
        elif tag == "img":  # a reader may say something for it
            self._flush(self._tag)
        elif tag in _BLOCKS:
            self._flush(tag)

    def handle_endtag(self, tag: str) -> None:
        """Leave a block, or the content."""
        if self._skipped:
            if tag == self._skipped[-1]:
                self._skipped.pop()
        elif tag in _BLOCKS and (tag == "pre" or not self._in_code):
            self._flush("")
        if tag == self._element[0] and self._depth:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        """Take a text."""
        if self._depth and not self._skipped:
            self._text.append(data)

    def close(self) -> None:
        """Take what is left."""
        super().close()
        self._flush("")

    def _flush(self, tag: str) -> None:
        text = "".join(self._text)
        if self._tag == "pre":
            first = text[:1] if self._text and self._text[0].startswith("\n") else ""
            code = text.removeprefix(first).removesuffix("\n")
            self.content.codes.update([code] if code.strip() else [])
        elif re.fullmatch("h[1-6]", self._tag):
            key = compact(_PERMALINK.sub("", text))
            self.content.headings.update([f"{self._tag[1]} {key}"] if key else [])
        elif key := compact(text):
            self.content.texts[key] += 1
        self._tag, self._text, self._in_code = tag, [], tag == "pre"


def compact(text: str) -> str:
    """Return a text without spaces and without what Markdown uses as marks."""
    return re.sub(r"[\s*_`\\|#>\[\]^¶]+", "", text)


def fenced(text: str) -> tuple[str, list[str]]:
    """Return a Markdown text without its blocks of code, and those without their margin."""
    codes: list[str] = []
    prose: list[str] = []
    lines = iter(text.split("\n"))
    for line in lines:
        opening = re.match(r"([ >]*(?:(?:-|\d+\.|:) +)*)(`{3,})[^`]*$", line)
        if not opening:
            prose.append(line)
            continue
        margin = re.sub("[^ >]", " ", opening[1])
        block = list(takewhile(partial(ne, margin + opening[2]), lines))
        codes.append(
            "\n".join(
                one.removeprefix(margin if one.startswith(margin) else margin.rstrip())
                for one in block
            )
        )
    return "\n".join(prose), codes


def content_of(html: str, element: tuple[str, str, str]) -> Content:
    """Return what there is to find in an element of a page."""
    parser = ContentParser(element)
    parser.feed(re.sub("\r\n?", "\n", html))
    parser.close()
    return parser.content


def lost(content: Content, text: str) -> list[str]:
    """Return what of a page's content isn't in the Markdown that a reader made of it."""
    prose, codes = fenced(text)
    plain = re.sub(r"\]\(\S*?\)", "]", prose)
    titles = re.findall(r"^[ >:-]*(#{1,6}) (.*)", plain, re.M)
    headings = Counter(f"{len(hashes)} {compact(title)}" for hashes, title in titles)
    words = compact(plain)
    return [
        *(f"text: {one}" for one, count in content.texts.items() if words.count(one) < count),
        *(f"heading: {one}" for one in content.headings - headings),
        *(f"code: {one!r}" for one in content.codes - Counter(codes)),
    ]


def downloaded(source: Source) -> str:
    """Return the HTML of a page in a package."""
    with tempfile.TemporaryDirectory() as folder:
        if "==" in source.package:
            command = ["pip", "download", "-q", "--no-deps"]
            command += ["--no-binary", ":all:", "--disable-pip-version-check", source.package]
        else:
            command = ["npm", "pack", "--silent", source.package]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(Path(folder).iterdir())) as package:
            name = next(one for one in package.getnames() if one.endswith(f"/{source.path}"))
            file = package.extractfile(name)
            assert file is not None, "a page is a file"
            return file.read().decode(errors="replace")


def main() -> int:
    """Print what each page has and what of it is lost."""
    wrong: list[str] = []
    print(f"{'':42}{'texts':>7}{'headings':>10}{'code':>6}{'lost':>6}")
    for source in SOURCES:
        html = downloaded(source)
        content = content_of(html, source.element)
        missing = lost(content, outrider(html, f"https://pages.test/{source.path}"))
        counts = [one.total() for one in (content.texts, content.headings, content.codes)]
        name = f"{source.package} {Path(source.path).name}"
        print(f"{name:42}{counts[0]:7}{counts[1]:10}{counts[2]:6}{len(missing):6}", flush=True)
        wrong += missing
    print("\n".join(one[:200] for one in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
