"""Code by its meaning: the tool `lsp`, and the client that asks language servers."""
