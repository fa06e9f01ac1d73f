"""One agent over many items: in one command that can be interrupted anywhere."""
