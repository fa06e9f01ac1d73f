"""The runtime `pi`: a task in a child that is the real `pi --mode json`."""
