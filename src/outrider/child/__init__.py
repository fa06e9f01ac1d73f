"""One task, its turns and its report: what runs in the child process."""
