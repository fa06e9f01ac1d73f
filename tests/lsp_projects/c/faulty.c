#include "shapes.h"

int count(void) { return area("none"); }
