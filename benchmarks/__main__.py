"""`python3 -m benchmarks`: measure Outrider beside its peers, print the page, write the docs.

A run of everything is published: it replaces `latest.json`, and the page and its plots follow from
that. With `--publish`, so is a run of some parts; the other parts keep their figures.
"""

import argparse
import datetime
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.contestants import CONTESTANTS, installed
from benchmarks.environments import FOLDER, ROOT
from benchmarks.measures import PARTS
from benchmarks.page import page
from benchmarks.plots import plots
from benchmarks.setting import QUICK, Json, Scale, Setting, machine

RESULTS = FOLDER / "results"
LATEST = FOLDER / "latest.json"
PLOTS = FOLDER / "plots"
PAGE = ROOT / "docs" / "benchmarks.md"


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say; the exit code is 1 if a part failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the drivers on the way
    options = _options(arguments)
    if options.page:
        publish(json.loads(LATEST.read_text()))
        return 0
    scale = QUICK if options.quick else Scale()
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    results, failed = measured(options.only, options.peers, scale, kept)
    print(page(results))
    if options.publish:
        if failed or options.only != list(PARTS):
            results = merged(json.loads(LATEST.read_text()), results)
        LATEST.write_text(json.dumps(results, indent=1) + "\n")
        publish(results)
    return 1 if failed else 0


def measured(only: list[str], peers: list[str], scale: Scale, kept: Path) -> tuple[Json, list[str]]:
    """Return the results and the names of the parts that failed; save after each part."""
    commands, problems = installed(needed(only, peers or CONTESTANTS))
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as name:
        setting = Setting(commands, Path(name), scale, problems)
        dates: dict[str, str] = {}
        results: Json = {
            "dates": dates,
            "machine": machine(),
            "quick": scale.quick,
            "versions": setting.versions,
            "problems": setting.problems,
        }
        for part in only:
            start = time.monotonic()
            try:
                results.update(PARTS[part].measure(setting))
                dates[part] = datetime.date.today().isoformat()
            except Exception as error:
                # One part that fails must not stop the others.
                print(f"{part} failed: {type(error).__name__}: {error}", file=sys.stderr)
                failed.append(part)
            print(f"{part}: {time.monotonic() - start:.0f} s", file=sys.stderr)
            kept.write_text(json.dumps(results, indent=1) + "\n")
    return results, failed


def needed(parts: Iterable[str], peers: Iterable[str]) -> list[str]:
    """Return those of the peers that take part in any of the parts."""
    names = {name for part in parts for name in PARTS[part].contestants}
    return [name for name in peers if name in names]


def merged(old: Json, new: Json) -> Json:
    """Return the old results with those parts replaced that the new ones have."""
    both = {key: {**old[key], **new[key]} for key in ("dates", "versions", "problems")}
    return {**old, **new, **both}


def publish(results: Json) -> None:
    """Write the page and its plots."""
    drawn = plots(results)
    PLOTS.mkdir(exist_ok=True)
    for name, svg in drawn.items():
        (PLOTS / name).write_text(svg)
    PAGE.write_text(page(results, plots=drawn))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="on a smaller scale")
    parser.add_argument(
        "--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART",
        help=f"only some parts: {', '.join(PARTS)}",
    )  # fmt: skip
    parser.add_argument(
        "--peers", nargs="+", choices=list(CONTESTANTS), default=[], metavar="NAME",
        help=f"only some contestants: {', '.join(CONTESTANTS)}",
    )  # fmt: skip
    parser.add_argument(
        "--publish", action="store_true", help="write these parts' figures into the docs"
    )
    parser.add_argument("--page", action="store_true", help="write the page again, measure nothing")
    options = parser.parse_args(arguments)
    whole = not options.peers and not options.quick
    if options.publish and not whole:
        parser.error("--publish takes a part's full figures: leave out --quick and --peers.")
    options.publish |= whole and options.only == list(PARTS)
    return options


if __name__ == "__main__":
    sys.exit(main())
