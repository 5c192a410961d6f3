"""What collector and hub agree on: signals, batches, states, Redis keys. Knows nobody."""

__version__ = "0.1.0"
