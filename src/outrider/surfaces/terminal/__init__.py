"""What the command line and the chat share: writing and drawing on a terminal."""
