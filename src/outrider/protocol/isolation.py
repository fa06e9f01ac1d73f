"""What kept a child from the rest of the machine, as its result tells it."""

from dataclasses import replace

from outrider.protocol.data import frozen

NAMESPACES = "namespaces: "  # how it is told that this machine gives none


@frozen
class Isolation:
    """What held while a task was done."""

    kind: str = "none"
    """`readonly`: the kernel let it change only its own folders; `none`: it worked in place."""
    network: str = "host"  # what its commands could reach: `none` or `host`
    missing: tuple[str, ...] = ()
    """What this machine lacks for all of it to hold, each with the reason."""

    @property
    def has_no_walls(self) -> bool:
        """Whether the kernel gave it no namespaces, on which all walls stand."""
        return any(lack.startswith(NAMESPACES) for lack in self.missing)

    def lacking(self, more: tuple[str, ...]) -> "Isolation":
        """Return it with more that is missing."""
        return replace(self, missing=tuple(dict.fromkeys((*self.missing, *more))))
