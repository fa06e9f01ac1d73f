"""What is kept of every run."""
