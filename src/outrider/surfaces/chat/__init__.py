"""The main agent in a terminal: what `ask` and `chat` show, and the prompt of `chat`."""
