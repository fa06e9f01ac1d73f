"""The words both processes speak: data, and pure functions on it."""
