"""One delegation from request to result: what runs in the parent process."""
