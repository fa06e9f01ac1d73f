"""What is done with shapes."""

from shapes.base import Shape, Square, total

LABELS = {"🙂": "small"}


def smallest() -> Shape:
    """Return the smallest shape."""
    print("🙂🙂", Square(1.0).area())
    return Square(1.0)


def report() -> float:
    """Return the area of what there is."""
    return total([smallest()])
