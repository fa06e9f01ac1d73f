"""Which step answers which request; no I/O."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, get_args

from outrider.testing.request import Request
from outrider.testing.steps import Failure, Step, fail

Script: TypeAlias = Sequence[Step] | Callable[[Request], Step]


class Chooser:
    """Hands out the steps of a script, and says where the script was at fault."""

    def __init__(self, script: Script, *, repeat: bool) -> None:
        if not callable(script):
            _check_sequence(script, repeat=repeat)
        elif repeat:
            raise ValueError("repeat=True is for a sequence of steps, and a function was given.")
        self._script = script if callable(script) else tuple(script)
        self._repeat = repeat
        self.faults: list[str] = []

    def step_for(self, request: Request) -> Step:
        """The step for this request; an HTTP 500 where the script has none."""
        if callable(self._script):
            return self._ask(self._script, request)
        if request.number < len(self._script):
            return self._script[request.number]
        if self._repeat:
            return self._script[-1]
        return self._fault(
            "script_exhausted",
            f"The script is exhausted: it has {len(self._script)} steps, and this is request "
            f"{request.number + 1}. Add a step, or pass repeat=True.",
        )

    def _ask(self, script: Callable[[Request], Step], request: Request) -> Step:
        try:
            step = script(request)
        except Exception as error:
            return self._fault("script_raised", f"The script raised {error!r}.")
        if not _is_step(step):
            return self._fault("script_wrong", _not_a_step(step))
        return step

    def _fault(self, code: str, message: str) -> Failure:
        self.faults.append(message)
        return fail(500, message=message, code=code, type="script_error")


def _check_sequence(script: Sequence[object], *, repeat: bool) -> None:
    for step in script:
        if not _is_step(step):
            raise TypeError(_not_a_step(step))
    if repeat and not script:
        raise ValueError("repeat=True repeats the last step, and the script has none.")


def _is_step(given: object) -> bool:
    return isinstance(given, get_args(Step))


def _not_a_step(given: object) -> str:
    return f"The script gave {given!r}, which is not a step; use answer(...), fail(...) and so on."
