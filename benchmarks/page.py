"""The page of results, in Markdown: what the command prints, and what the docs hold; no I/O."""

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.aims import judged_aims, pi_reference
from benchmarks.contestants import ANTHROPIC, COLD, COLD_ANTHROPIC, CONTESTANTS, SDK, WARM
from benchmarks.figures import NONE, TIMES, median, milliseconds, number, ratio, table, times

Json = dict[str, Any]
PLOTS = "../benchmarks/plots"
GROWN = 200
"""The length of a history that all are compared at."""

OPENING = """\
# Benchmarks

Outrider and other agent runtimes get the same tasks and use the same scripted model server, which
answers immediately, so the figures show what the runtimes themselves cost. In each round of a
measurement the runtimes take turns, and each has its own home folder. To run the benchmarks:

```
python3 -m benchmarks                          # everything, about 20 minutes; writes this page
python3 -m benchmarks --quick                  # a smaller scale; prints the page only
python3 -m benchmarks --only parent --publish  # one part; the others keep their figures
python3 -m benchmarks --page                   # this page and its plots, from the last results
```

The first run installs the other runtimes: those in Python with pip or uv, those in JavaScript with
npm. Every figure on this page is generated. Times are medians unless a table says otherwise; "best"
is the best round. Times depend on the machine, so look at the ratios.

Three commands of their own check promises instead of comparing runtimes:

```
python3 -m benchmarks.faults                   # 2,000 delegations under random faults, on Linux
python3 -m benchmarks.mapping                  # a map of 10,000 items beside bare delegations
python3 -m benchmarks.cluster                  # a map on one node and on two, with Ray
python3 -m benchmarks.run_listing              # the CPU time of `outrider runs` with 10,000 runs
python3 -m benchmarks.viewing                  # `outrider view` with 5,000 runs, and a long one
```

`faults` prints how the delegations ended for each fault: errors, streams cut at any byte, stalls,
odd finish reasons and usage, wrong reports, floods, and children that are killed, stopped or
cancelled at random moments. It compares each result with what the server really sent, each record
with its result, and looks for processes, files, descriptors and threads that are left over. The
exit code is 1 if anything is wrong. `--count N` delegates less often, `--only FAULT` picks faults,
and `--seed N` repeats the choices of a trial; the moments of a kill still vary.
"""

COMPARABLE = """\
## What isn't comparable

- `pydantic-ai-harness`, `deepagents`, `openai-agents` and `smolagents` run a subagent as a function
  in the parent's process. It shares the parent's memory, environment and secrets, and can't be
  killed, limited or confined on its own. Outrider and `pi` start a process for each task. The
  in-process figures show what a task costs without one. They use the SDK of OpenAI, so the row
  with `wire: sdk` shows the price of isolation alone.
- The in-process runtimes are called through their own delegation tool, without a parent model:
  `SubAgents`' `delegate_task`, deepagents' `task`, `Agent.as_tool`, a smolagents managed agent.
- Each task reads one small file in every turn except the last. Outrider and `pi` use their own
  `read` tool, with its checks and records; the in-process runtimes get a two-line function.
- Outrider's warm process keeps one spare child ready while it is idle. A single task gets that
  child, as in "One task"; tasks that start together are forked on demand.
- Outrider's children are confined by the kernel ([walls](safety.md#walls)). All
  figures include that, except for those of a row "no walls".
- Outrider also records every run, masks secrets in everything that leaves it, and enforces
  deadlines and budgets. Its figures include that.
- `pi -p` is pi as you would run it. `pi as a child` is pi as a parent spawns it: JSON events, no
  session, extensions, skills, templates or context files, and only its read tools. Comparisons
  with "pi" use the faster of the two.
- `pi-subagents` is a running pi whose model calls the `subagent` tool, measured from that call
  until the parent gets the result. It runs with its defaults, where each child has its own
  background runner; it can also run a child inside the parent's process.
- Memory is the unique set size: what would be freed if the process ended. For runtimes without a
  process per task, it is how much the parent grew.
"""


WIRE = """\
## What the wire changes

`openai-chat:` models and local servers are reached over the lean wire, a small client in Outrider.
With `models.wire: sdk`, the same task uses the provider's SDK instead, in the same processes with
the same guards. So the difference between the first two rows is a faster client, not cheaper
isolation. Anthropic's models always use the SDK, as do those of any other provider that the lean
wire doesn't serve: the last row is what their users get. The aims are judged with the lean wire.

"""


def page(results: Json, *, plots: Iterable[str] = ()) -> str:
    """Return the whole page; a part that was not measured is left out."""
    shown = set(plots)
    sections = [OPENING, _machine(results), _aims(results), _wire(results)]
    sections += [_latency(results, shown), _at_once(results, shown), _parent(results)]
    sections += [
        _cpu(results),
        _memory(results),
        _history(results, shown),
        _tool(results),
        _startup(results),
    ]
    sections += [_throughput(results), COMPARABLE, _versions(results)]
    return "\n".join(section for section in sections if section)


def _machine(results: Json) -> str:
    if not (machine := results.get("machine")):
        return ""
    scale = " On a small scale (`--quick`)." if results.get("quick") else ""
    processor = f" ({machine['processor']})" if "processor" in machine else ""
    load = f" The load was {machine['load']} at the start." if "load" in machine else ""
    return (
        f"Measured on {machine['system']}, {machine['cores']} cores{processor}, "
        f"{machine['memory_gb']} GB, Python {machine['python']}: {_dates(results['dates'])}."
        f"{load}{scale}\n"
    )


def _dates(dates: Mapping[str, str]) -> str:
    """Return when each part was measured, in few words if all were on one day."""
    if len(days := sorted(set(dates.values()))) == 1:
        return days[0]
    named = {day: ", ".join(part for part in dates if dates[part] == day) for day in days}
    return "; ".join(f"{day} ({parts})" for day, parts in named.items())


def _aims(results: Json) -> str:
    words = {True: "yes", False: "**no**", None: NONE}
    rows = [(each.aim, each.found, words[each.met]) for each in judged_aims(results)]
    return "## Aims\n\n" + table(("Aim", "Measured", "Met"), rows, words=3)


def _wire(results: Json) -> str:
    latency = results.get("latency", {})
    if SDK not in latency.get("first", {}):
        return ""
    ways = {
        WARM: ("the lean wire", COLD),
        SDK: ("the SDK, `models.wire: sdk`", ""),
        ANTHROPIC: ("Anthropic, always by its SDK", COLD_ANTHROPIC),
    }
    rows: list[list[str]] = []
    for name, (title, cold) in ways.items():
        thousand = results.get("at_once", {}).get(name, {}).get("1000", {}).get("throughput")
        memory = results.get("memory", {}).get(name, {}).get("child_mb")
        cpu = results.get("cpu", {}).get(name, {}).get("ms")
        rows.append(
            [
                title,
                milliseconds(median(latency["first"].get(name))),
                milliseconds(median(latency["one"].get(name))),
                milliseconds(median(latency["first"].get(cold))),
                _each(thousand, "/s"),
                milliseconds(median(cpu)),
                _each(memory, " MB"),
            ]
        )
    header = ("", "to first request", "one turn", "cold, to first request")
    header += ("1,000 at once", "CPU per task", "unique memory per task")
    return WIRE + table(header, rows)


def _each(value: float | None, unit: str) -> str:
    return NONE if value is None else f"{number(value)}{unit}"


def _image(name: str, shown: set[str], title: str) -> str:
    return f"\n![{title}]({PLOTS}/{name})\n" if name in shown else ""


def _latency(results: Json, shown: set[str]) -> str:
    latency = results.get("latency")
    if not latency:
        return ""
    kinds = ("first", "one", "ten")
    header = ["", "own process"]
    for title in ("to first request", "one turn", "ten turns"):
        header += [title, f"{TIMES} warm", f"{TIMES} pi"]
    rows: list[list[str]] = []
    for name in (name for name in CONTESTANTS if name in latency["first"]):
        row = [name, "yes" if CONTESTANTS[name].isolated else "no"]
        for kind in kinds:
            value = median(latency[kind].get(name))
            warm = median(latency[kind].get(WARM))
            row.append(milliseconds(value))
            row += [
                times(ratio(value, warm)),
                times(ratio(value, pi_reference(latency, kind))),
            ]
        rows.append(row)
    bare = {"*a bare fork of the warmed process*": ("fork", 0), "*a bare Python*": ("python", 1)}
    for title, (yardstick, place) in bare.items():
        if (value := median(results.get(yardstick))) is not None:
            warm = median(latency[kinds[place]].get(WARM))
            pi = pi_reference(latency, kinds[place])
            cells = [milliseconds(value), times(ratio(value, warm)), times(ratio(value, pi))]
            rows.append([title, NONE, *[NONE] * 3 * place, *cells, *[NONE] * 3 * (2 - place)])
    return (
        "## One task\n\nThe time until the first request to the model, and until the answer, one "
        "task at a time and in another order each round.\n\n"
        + table(header, rows)
        + _image("first.svg", shown, "To the first request")
        + _image("one.svg", shown, "One turn")
        + _image("ten.svg", shown, "Ten turns")
    )


def _at_once(results: Json, shown: set[str]) -> str:
    found = results.get("at_once")
    if not found:
        return ""
    sizes = sorted({int(size) for cells in found.values() for size in cells})
    rows: list[list[str]] = []
    for size in sizes:
        warm = found.get(WARM, {}).get(str(size), {}).get("throughput")
        for name, cells in found.items():
            if cell := cells.get(str(size)):
                speed = cell["throughput"]
                best = ratio(size, min(cell.get("seconds", ()), default=None))
                rows.append(
                    [
                        f"{size:,}",
                        name,
                        f"{number(speed)}/s",
                        times(ratio(speed, warm)),
                        _each(best, "/s"),
                        milliseconds(cell["p50"]),
                        milliseconds(cell["p99"]),
                    ]
                )
    header = ("at once", "", "finished", f"{TIMES} warm", "best", "p50", "p99")
    note = (
        "All tasks start at the same moment, and each must return its own answer. "
        f"`{COLD}` and the row with a queue of 8 run at most eight children at a time; "
        "the others run all tasks at once. What would need more memory than the machine has, or "
        "takes minutes, is left out.\n"
    )
    return (
        "## Many tasks at once\n\n"
        + note
        + "\n"
        + table(header, rows)
        + _image("at-once.svg", shown, "Tasks at once")
    )


def _parent(results: Json) -> str:
    if not (found := results.get("parent")):
        return ""
    titles = {"delegating": "one delegation", "copying": "copying its events to a file"}
    rows = [
        [
            title,
            milliseconds(median(found[kind])),
            times(ratio(median(found[kind]), median(found["copying"]))),
            milliseconds(min(found[kind])),
        ]
        for kind, title in titles.items()
    ]
    return (
        "## The parent's own CPU time\n\nThe CPU time per task of the process that delegates, "
        f"without its children and the model server: one turn, {found['at_once']} at once, warm. "
        "At the same time, another process opens the same number of descriptors, reads the same "
        f"{found['events']} events ({found['bytes']:,} bytes) and writes them to a file. Both keep "
        "their files in memory, where the cost doesn't vary from day to day. The aim compares "
        "medians: other load slows both processes, and the best rounds would depend on one lucky "
        "round of the short copy.\n\n"
        + table(("", "median", f"{TIMES} copying", "best round"), rows)
    )


def _cpu(results: Json) -> str:
    if not (found := results.get("cpu")):
        return ""
    warm = median(found.get(WARM, {}).get("ms"))
    rows = [
        [
            name,
            str(cell["tasks"]),
            milliseconds(median(cell["ms"])),
            times(ratio(median(cell["ms"]), warm)),
            milliseconds(min(cell["ms"])),
        ]
        for name, cell in found.items()
    ]
    return (
        "## The CPU time of all processes\n\nThe CPU time per task of one turn when many start at "
        "the same moment: of the parent and of everything that it starts, such as Outrider's "
        "fork server, guardians and children, from their start to the end of their exit. It is "
        "the kernel's account of a control group in which they run.\n\n"
        + table(("", "at once", "CPU per task", f"{TIMES} warm", "best"), rows)
    )


def _memory(results: Json) -> str:
    if not (found := results.get("memory")):
        return ""
    warm = found.get(WARM, {}).get("child_mb")
    rows: list[list[str]] = []
    for name, cell in found.items():
        child, largest = cell["child_mb"], cell["largest_mb"]
        held = f"{cell['tasks']:,}" + ("" if cell["together"] else ", not all at once")
        row = [name, held, NONE if child is None else f"{number(child)} MB"]
        row += [times(ratio(child, warm)), NONE if largest is None else f"{number(largest)} MB"]
        rows.append([*row, f"{number(max(0, cell['parent_mb']))} MB"])
    header = ("", "tasks held", "unique per task", f"{TIMES} warm", "largest process")
    header += ("parent growth per task",)
    return (
        "## Memory\n\nMeasured while the tasks wait for their model. All processes of a task "
        "count; for Outrider, these are the child and its guardian.\n\n" + table(header, rows)
    )


def _history(results: Json, shown: set[str]) -> str:
    found = dict(results.get("history", {}))
    if loop := results.get("loop"):
        found["outrider's loop alone"] = loop
    if not found:
        return ""
    points = sorted({int(point) for costs in found.values() for point in costs})
    rows: list[list[str]] = []
    for name, costs in found.items():
        grown = ratio(costs.get(str(GROWN)), costs.get(str(points[0])))
        rows.append(
            [name, *(milliseconds(costs.get(str(point))) for point in points), times(grown)]
        )
    header = ["", *(f"at {point}" for point in points), f"growth to {GROWN}"]
    return (
        "## A turn as the history grows\n\nThe time from one request of a long task to the next, "
        "including the wire and the tool. The last row is Outrider's loop with an in-process "
        "model.\n\n" + table(header, rows) + _image("history.svg", shown, "History")
    )


def _tool(results: Json) -> str:
    if not (found := results.get("tool")):
        return ""
    warm = found.get(WARM, {}).get("bytes")
    rows = [
        [
            "outrider" if name == WARM else name,
            f"`{cell['tool']}`",
            f"{cell['bytes']:,}",
            f"{round(cell['bytes'] / 4):,}",
            times(ratio(cell["bytes"], warm)),
        ]
        for name, cell in sorted(found.items(), key=lambda item: item[1]["bytes"])
    ]
    header = ("", "tool", "bytes", "tokens (bytes / 4)", f"{TIMES} outrider")
    prompt = found.get(WARM, {}).get("prompt_bytes", 0)
    return (
        "## What delegation costs the parent per turn\n\nThe size of the delegation tool's "
        "definition as sent to the model. A runtime may also explain in the system prompt when to "
        f"delegate; Outrider's text for that is {prompt:,} bytes and can be switched off.\n\n"
        + table(header, rows)
    )


def _startup(results: Json) -> str:
    if not (found := results.get("startup")):
        return ""
    bare = median(found.get("python -c pass"))
    rows = [
        [
            f"`{name}`",
            milliseconds(median(values)),
            times(ratio(median(values), bare)),
        ]
        for name, values in found.items()
    ]
    return "## Start-up\n\n" + table(("", "time", f"{TIMES} bare Python"), rows)


def _throughput(results: Json) -> str:
    if not (found := results.get("throughput")):
        return ""
    rows: list[list[str]] = []
    for name, speed in found.items():
        if name.startswith("copying"):
            continue
        kind = name.split(" ", 1)[1]
        against = found.get(f"copying {kind} in memory", found["copying events to a file"])
        cells = [f"{number(each)} MB/s" for each in (speed, against)]
        rows.append([name, *cells, times(ratio(against, speed))])
    flood = results.get("flood", {})
    words = (
        f"\nCollecting {number(flood['bytes'] / 1e6)} MB of events took "
        f"{number(flood['seconds'])} s and at most {number(flood['most'] / 1e6)} MB of memory.\n"
        if flood
        else ""
    )
    header = ("", "speed", "a plain copy", f"{TIMES} the copy's time")
    return "## Collecting, sanitising, validating\n\n" + table(header, rows) + words


def _versions(results: Json) -> str:
    versions = results.get("versions", {})
    problems = results.get("problems", {})
    rows = [[name, version, problems.get(name, "")] for name, version in versions.items()]
    rows += [[name, NONE, why] for name, why in problems.items() if name not in versions]
    return "## Versions\n\n" + table(("", "version", "problem"), rows, words=3)
