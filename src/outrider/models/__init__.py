"""Which model answers: how it is chosen, built and judged, and the one that is built in."""
