"""What collector and hub agree on: signals, batches, states, Redis keys. Knows nobody."""

__version__ = "0.1.0"

#: A hub keeps sessions that are over for so many days, and a usage report covers no more of them.
MOST_DAYS = 400
