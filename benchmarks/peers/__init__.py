"""One driver for each peer. It runs in the peer's own environment and speaks `protocol`."""
