"""Child processes that end with their parent, and everything that they started."""
