"""How much of a page's text is kept and how much of its boilerplate is dropped.

    python -m benchmarks.pages

Reads the twenty pages in `tests/pages` with the reader of `fetch_content`, with bare trafilatura
and with markdownify, and prints for each the share of sentences kept, the share of exact pieces
kept (code with its indentation, tables, lists, headings), and the share of boilerplate dropped.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PAGES = Path(__file__).parents[1] / "tests" / "pages"
CHARSETS = {"nonlatin": "shift_jis"}
ADDRESS = "https://pages.test/{}/index.html"

Read = Callable[[str, str], str]
"""Returns the text of a page, from its HTML and its address."""


@dataclass(frozen=True)
class Page:
    """A page, and what has to be in its text."""

    name: str
    html: str
    kept: list[str]
    exact: list[str]
    dropped: list[str]

    @property
    def url(self) -> str:
        """Where the page would be."""
        return ADDRESS.format(self.name)


@dataclass(frozen=True)
class Score:
    """What a reader kept and dropped of one page, each as the pieces that it got wrong."""

    lost: list[str]
    broken: list[str]
    left: list[str]


def pages() -> list[Page]:
    """Return the twenty pages."""
    expected = json.loads((PAGES / "expected.json").read_text())
    return [Page(name, html_of(name), **lists) for name, lists in expected.items()]


def html_of(name: str) -> str:
    """Return the HTML of a page; the very long one is made here."""
    if name == "long":
        return long_page()
    return (PAGES / f"{name}.html").read_bytes().decode(CHARSETS.get(name, "utf-8"))


def long_page(sections: int = 400) -> str:
    """Return a page of many sections."""
    menu = "".join(f"<a href='/{n}'>Part of the site navigation {n}</a>" for n in range(30))
    parts = "".join(
        f"<h2>Section {n}</h2><p>Section {n} says that entry {n} of {sections} was measured on a "
        f"quiet morning, and that nothing in it was left out of the printed edition.</p>"
        f"<p>A second paragraph adds what the first one could not say about number {n * 7}.</p>"
        for n in range(1, sections + 1)
    )
    return (
        f"<!doctype html><title>A very long page</title><nav>{menu}</nav><main><h1>All of it</h1>"
        f"<p>Chapter 1 begins here.</p>{parts}<p>The last sentence of the very long page.</p>"
        "</main><footer>Footer of a very long page</footer>"
    )


def plain(text: str) -> str:
    """Return a text without Markdown's marks and with single spaces."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\\([^\w\s])", r"\1", text)
    text = re.sub(r"[*`]", "", text)
    return " ".join(re.sub(r"[|]|^\s*(?:#+|-|\d+\.|>|:)\s", " ", text, flags=re.M).split())


def score(page: Page, text: str) -> Score:
    """Return what is wrong with the text that a reader made of a page."""
    words = plain(text)
    return Score(
        [one for one in page.kept if plain(one) not in words],
        [one for one in page.exact if one not in text],
        [one for one in page.dropped if plain(one) in words],
    )


def outrider(html: str, url: str) -> str:
    """Return what `fetch_content` makes of a page."""
    from outrider.tools.web.main_text import main_text

    return main_text(html, url)["text"]


def bare_trafilatura(html: str, url: str) -> str:
    """Return what trafilatura makes of it, with tables and links."""
    import trafilatura

    text = trafilatura.extract(
        html, url=url, output_format="markdown", include_links=True, include_tables=True
    )
    return text or ""


def bare_markdownify(html: str, url: str) -> str:
    """Return what markdownify makes of it."""
    from markdownify import markdownify

    return markdownify(html, heading_style="ATX", bullets="-")


READERS: dict[str, Read] = {
    "outrider": outrider,
    "trafilatura": bare_trafilatura,
    "markdownify": bare_markdownify,
}


def share(wrong: int, of: int) -> float:
    """Return which share was right."""
    return 1 - wrong / of if of else 1.0


def measured(read: Read) -> tuple[list[tuple[Page, Score]], float]:
    """Return the score of every page, and the seconds it took."""
    read("<p>Loads what is loaded once.</p>", ADDRESS)
    start = time.perf_counter()
    scores = [(page, score(page, read(page.html, page.url))) for page in pages()]
    return scores, time.perf_counter() - start


def totals(scores: list[tuple[Page, Score]]) -> tuple[float, float, float]:
    """Return the shares of all pages: sentences kept, exact pieces kept, boilerplate dropped."""
    return (
        share(sum(len(s.lost) for _, s in scores), sum(len(p.kept) for p, _ in scores)),
        share(sum(len(s.broken) for _, s in scores), sum(len(p.exact) for p, _ in scores)),
        share(sum(len(s.left) for _, s in scores), sum(len(p.dropped) for p, _ in scores)),
    )


def main() -> None:
    """Print the shares by page and in all."""
    results = {name: measured(read) for name, read in READERS.items()}
    print("kept / exact / dropped, in %")
    print(f"{'':14}" + "".join(f"{name:>18}" for name in results))
    for index, page in enumerate(pages()):
        cells = (totals([scores[index]]) for scores, _ in results.values())
        print(f"{page.name:14}" + "".join(f"{_cell(cell):>18}" for cell in cells))
    print(f"{'all':14}" + "".join(f"{_cell(totals(s)):>18}" for s, _ in results.values()))
    print(f"{'seconds':14}" + "".join(f"{seconds:>18.2f}" for _, seconds in results.values()))


def _cell(shares: tuple[float, float, float]) -> str:
    return " / ".join(f"{100 * one:.0f}" for one in shares)


if __name__ == "__main__":
    main()
