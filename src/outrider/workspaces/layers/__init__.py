"""A writer's layer over the user's folder: what changed in it, its review, landing and undo."""
