"""What our own layers save each time they start: their imports, beside those of a library.

    python -m benchmarks.imports

Prints the CPU time of a Python that imports our module, the library, and both. Of each, the mean
of the faster half counts: the slower half has waited for other work.
"""

import os
import statistics
import subprocess
import sys

ROUNDS = 20
PAIRS = {
    "MCP on stdio": ("outrider.surfaces.mcp.start", "mcp.server"),
    "terminal tables": ("outrider.surfaces.table", "rich.console, rich.table"),
}


def cpu_ms(*modules: str) -> float:
    """Return the CPU time of a Python that imports these modules and ends."""
    code = "\n".join(f"import {module}" for module in modules)
    taken: list[float] = []
    for _ in range(ROUNDS):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        taken.append(after.children_user + after.children_system)
        taken[-1] -= before.children_user + before.children_system
    return 1000 * statistics.mean(sorted(taken)[: ROUNDS // 2])


def main() -> None:
    """Print the table."""
    print(f"{'':18}{'ours':>9}{'library':>9}{'both':>9}")
    for name, (ours, library) in PAIRS.items():
        figures = (cpu_ms(ours), cpu_ms(library), cpu_ms(ours, library))
        print(f"{name:18}" + "".join(f"{figure:6.0f} ms" for figure in figures))
    print(f"{'bare Python':18}{cpu_ms():6.0f} ms")


if __name__ == "__main__":
    main()
