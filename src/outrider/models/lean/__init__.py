"""A small client of our own for chat completions, as OpenAI and most model servers speak them."""
