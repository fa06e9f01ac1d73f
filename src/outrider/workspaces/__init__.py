"""Where a child's files are: decides which paths may be used, opens and replaces those files."""
