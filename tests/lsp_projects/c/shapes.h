#ifndef SHAPES_H
#define SHAPES_H

/** A shape with four equal sides. */
struct square {
  double side;
};

/** Return how large it is. */
double area(const struct square *shape);

#endif
