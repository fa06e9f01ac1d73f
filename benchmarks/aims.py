"""The aims that must hold, judged by the results; no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.contestants import IN_PI, PI, PI_CHILD, RUN, WARM
from benchmarks.figures import median, milliseconds, number, ratio, times

Json = dict[str, Any]
FIRST_KEY, PROMPT_TOOLKIT = "outrider chat, first key", "import prompt_toolkit"
MAX_FIRST_KEY_RATIO = 1.5
MAX_FIRST_ANSWERS_RATIO = 10
MAX_IDLE_MEGABYTES = 30
MAX_PARENT_CPU_RATIO = 8.6
"""Two thirds of 13.0, the ratio of 4430d84, before the rooms were rebuilt.

Both versions took turns in one run of 150 rounds, with all files in memory as here.
"""


@dataclass(frozen=True)
class JudgedAim:
    """One aim, what was found, and whether that meets it; None if it was not measured."""

    aim: str
    found: str
    met: bool | None


def pi_reference(latency: Json, kind: str) -> float | None:
    """Return the faster of pi's two ways: what a comparison with pi is held to."""
    known = [median(latency.get(kind, {}).get(name)) for name in (PI, PI_CHILD)]
    return min((value for value in known if value is not None), default=None)


def judged_aims(results: Json) -> list[JudgedAim]:
    """Return every aim, judged."""
    return [
        *_speed(results),
        *_at_once(results),
        _parent(results),
        *_history(results),
        *_throughput(results),
        _queue(results),
        _killed(results),
        _first_key(results),
        *_mcp(results),
    ]


def _judged(aim: str, value: float | None, shown: str, holds: Callable[[float], bool]) -> JudgedAim:
    if value is None:
        return JudgedAim(aim, "not measured", None)
    return JudgedAim(aim, shown, holds(value))


def _at_most(aim: str, value: float | None, limit: float, shown: str) -> JudgedAim:
    return _judged(aim, value, shown, lambda found: found <= limit)


def _at_least(aim: str, value: float | None, limit: float, shown: str) -> JudgedAim:
    return _judged(aim, value, shown, lambda found: found >= limit)


def _speed(results: Json) -> list[JudgedAim]:
    latency = results.get("latency", {})
    warm = median(latency.get("first", {}).get(WARM))
    fork = median(results.get("fork"))
    pi_first, pi_one = pi_reference(latency, "first"), pi_reference(latency, "one")
    one = median(latency.get("one", {}).get(WARM))
    run, plain_pi = (median(latency.get("one", {}).get(name)) for name in (RUN, PI))
    deep = median(latency.get("one", {}).get("deepagents"))
    faster, forks = ratio(pi_first, warm), ratio(warm, fork)
    share, against_run = ratio(pi_one, one), ratio(plain_pi, run)
    near = ratio(one, deep)
    in_pi, as_child = (median(latency.get("one", {}).get(name)) for name in (IN_PI, PI_CHILD))
    supervised = ratio(in_pi, as_child)
    return [
        _at_least(
            "warm, request to first model request: at least 15 times faster than pi",
            faster,
            15,
            f"{times(faster)} faster ({milliseconds(warm)}, {milliseconds(pi_first)})",
        ),
        _at_most(
            "warm, request to first model request: at most 5 times a bare fork",
            forks,
            5,
            f"{times(forks)} ({milliseconds(fork)} for the fork)",
        ),
        _at_least(
            "warm, one-turn task: at most an eighth of pi's time",
            share,
            8,
            f"{times(share)} faster ({milliseconds(one)}, {milliseconds(pi_one)})",
        ),
        JudgedAim(
            "warm, one-turn task: compared with deepagents, which starts no process (no limit set)",
            "not measured" if near is None else f"{times(near)} its time ({milliseconds(deep)})",
            None,
        ),
        _judged(
            "`outrider run`, one-turn task: faster than `pi -p`",
            against_run,
            f"{times(against_run)} faster ({milliseconds(run)}, {milliseconds(plain_pi)})",
            lambda found: found > 1,
        ),
        _at_most(
            "`runtime: pi`, one-turn task: supervision costs less than 10 % of pi alone",
            supervised,
            1.1,
            f"{times(supervised)} ({milliseconds(in_pi)}, {milliseconds(as_child)})",
        ),
    ]


def _at_once(results: Json) -> list[JudgedAim]:
    thousand = results.get("at_once", {}).get(WARM, {}).get("1000")
    memory = results.get("memory", {}).get(WARM, {})
    child = memory.get("child_mb")
    left = results.get("left", {})
    descriptors, processes = left.get("descriptors"), left.get("processes")
    return [
        JudgedAim(
            "1,000 delegations at once: all finish, each with the right answer",
            f"{number(thousand['throughput'])} a second" if thousand else "not measured",
            True if thousand else None,
        ),
        _at_most(
            "at most 15 MB of unique memory for each live child",
            child,
            15,
            f"{number(child)} MB, its guardian included, with {memory.get('tasks')} at once",
        ),
        _at_most(
            "no descriptors or processes left over, except the warm process",
            None if processes is None or descriptors is None else max(descriptors, processes),
            0,
            f"{descriptors} more descriptors and {processes} more processes than before, after "
            f"{left.get('tasks')} at once",
        ),
    ]


def _parent(results: Json) -> JudgedAim:
    cpu = results.get("parent", {})
    kinds = ("delegating", "copying")
    delegating, copying = (median(cpu.get(kind, [])) for kind in kinds)
    factor = ratio(delegating, copying)
    return _at_most(
        f"the parent's own CPU time for a delegation: at most {MAX_PARENT_CPU_RATIO} times that "
        "of copying its events",
        factor,
        MAX_PARENT_CPU_RATIO,
        f"{times(factor)} ({milliseconds(delegating)}, {milliseconds(copying)})",
    )


def _history(results: Json) -> list[JudgedAim]:
    found: list[JudgedAim] = []
    for title, costs, limit in (
        ("the loop's own cost", results.get("loop", {}), 2),
        ("the same with the OpenAI wire", results.get("history", {}).get(WARM, {}), 5),
    ):
        grown = ratio(costs.get("400"), costs.get("10"))
        shown = f"{times(grown)} ({milliseconds(costs.get('10'))} to "
        shown += f"{milliseconds(costs.get('400'))})"
        aim = f"{title} at turn 400: at most {limit} times that at turn 10"
        found.append(_at_most(aim, grown, limit, shown))
    return found


def _throughput(results: Json) -> list[JudgedAim]:
    speeds = results.get("throughput", {})
    slowest = min((v for k, v in speeds.items() if k.startswith("sanitising")), default=None)
    growth = {int(size): seconds for size, seconds in results.get("growth", {}).items()}
    flood = results.get("flood", {})
    sizes = sorted(growth)
    # Four times the text may take at most six times as long; quadratic growth would take sixteen.
    grown = ratio(growth[sizes[-1]], growth[sizes[0]]) if sizes else None
    factor = sizes[-1] / sizes[0] if sizes else 0
    big = flood.get("bytes", 0) >= 1_000_000_000
    most = flood.get("most", 0) / 1_000_000
    return [
        _at_least(
            "sanitising ordinary text, a megabyte at a time: 50 MB/s or more",
            slowest,
            50,
            f"{number(slowest)} MB/s at the slowest",
        ),
        _at_most(
            f"sanitising is linear up to {sizes[-1] if sizes else 100} MB",
            grown,
            1.5 * factor,
            f"{times(grown)} the time for {times(factor)} the text",
        ),
        JudgedAim(
            "collecting 1 GB of events: under 100 MB of memory",
            f"{number(most)} MB for {number(flood['bytes'] / 1_000_000)} MB of events"
            if flood
            else "not measured",
            most < 100 if big else None,
        ),
    ]


def _queue(results: Json) -> JudgedAim:
    queue = results.get("queue")
    aim = "the queue is fair: never more at once than allowed, and first come, first served"
    if not queue:
        return JudgedAim(aim, "not measured", None)
    shown = f"at most {queue['most_at_once']} at once with a limit of {queue['width']}; none of "
    shown += f"{queue['tasks']} tasks more than {queue['displaced']} places out of order"
    fair = queue["most_at_once"] <= queue["width"] and queue["displaced"] <= queue["width"]
    return JudgedAim(aim, shown, fair)


def _first_key(results: Json) -> JudgedAim:
    startup = results.get("startup", {})
    taken, bare = median(startup.get(FIRST_KEY)), median(startup.get(PROMPT_TOOLKIT))
    share = ratio(taken, bare)
    aim = "`outrider chat` accepts the first key: at most 1.5 times `import prompt_toolkit`"
    shown = f"{times(share)} ({milliseconds(taken)}, {milliseconds(bare)})"
    return _at_most(aim, share, MAX_FIRST_KEY_RATIO, shown)


def _mcp(results: Json) -> list[JudgedAim]:
    found = results.get("mcp", {})
    first, bare = median(found.get("first")), median(found.get("bare"))
    share = ratio(first, bare)
    shown = f"{times(share)} ({milliseconds(first)}, {milliseconds(bare)})"
    answers = "`outrider mcp` answers `initialize` and `tools/list`: at most 10 times bare Python"
    memory = "`outrider mcp`, idle: under 30 MB, even after two hundred delegations"
    most = max(found["idle"], found["after"]) / 1e6 if found else None
    held = f"{number((found.get('idle') or 0) / 1e6)} MB, then {number(most)} MB after "
    held += f"{found.get('delegations')} delegations"
    return [
        _at_most(answers, share, MAX_FIRST_ANSWERS_RATIO, shown),
        _judged(memory, most, held, lambda value: value < MAX_IDLE_MEGABYTES),
    ]


def _killed(results: Json) -> JudgedAim:
    aim = "the warm process is killed at random during 500 delegations: 99 % are answered, none "
    aim += "wrongly, and none runs twice"
    if not (killed := results.get("killed")):
        return JudgedAim(aim, "not measured", None)
    tasks, answered = killed["tasks"], killed["answered"]
    shown = f"killed {killed['kills']} times; {answered} of {tasks} answered, {killed['wrong']} "
    shown += f"wrong answers, {killed['repeated']} tasks done twice"
    holds = answered >= 0.99 * tasks and not killed["wrong"] and not killed["repeated"]
    return JudgedAim(aim, shown, holds if tasks >= 500 and killed["kills"] else None)
