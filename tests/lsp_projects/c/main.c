#include "shapes.h"

static double report(void) {
  struct square small = {1.0};
  const char *label = "🙂🙂"; double size = area(&small);
  return label ? size : 0;
}

int main(void) { return (int)report(); }
