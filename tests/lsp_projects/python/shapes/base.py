"""What a shape is."""

from abc import ABC, abstractmethod


class Shape(ABC):
    """Something with an area."""

    @abstractmethod
    def area(self) -> float:
        """Return how large it is."""


class Square(Shape):
    """Four equal sides."""

    def __init__(self, side: float) -> None:
        self.side = side

    def area(self) -> float:
        """Return the square of its side."""
        return self.side * self.side


def total(shapes: list[Shape]) -> float:
    """Return the area of all."""
    return sum(shape.area() for shape in shapes)
