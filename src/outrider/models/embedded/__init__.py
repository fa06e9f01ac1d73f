"""The embedded model: it searches with the words of the task, and quotes what it has read."""
