"""What the command line and the chat share: writing, drawing and asking on a terminal."""
