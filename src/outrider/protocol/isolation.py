"""What kept a child from the rest of the machine, as its result tells it."""

from outrider.protocol.data import frozen


@frozen
class Isolation:
    """What held while a task was done."""

    kind: str = "none"
    """`readonly`: the kernel let it change only its own folders; `none`: it worked in place."""
    network: str = "host"
    """What the programs that it starts can reach: `none` or `host`."""
    missing: tuple[str, ...] = ()
    """What this machine lacks for all of it to hold, each with the reason."""
