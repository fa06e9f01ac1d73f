"""What runs a task and yields its events."""
