"""Parts of a text: how they are found and replaced, literals, and paths and traces made short."""
